//! Weights P over samples during a run of a min-max solver: sampled from, increased at a few samples and projected onto
//! [`ChiSquare`] in every step. The solver decides which weights are increased, and by how much.
//!
//! There are two representations of the same numbers. [`Dense`] stores every weight and projects all of them. [`Tree`] exploits
//! that a projection applies the same map to all weights except the increased ones: `u -> max(-c, u / kap - tau)`, u = p - 1/n.
//! It stores keys q in a search tree and one affine map `u = scale (q - middle) + height` for all of them, so that a projection
//! changes only the map and the keys of the samples at the floor, which share one node.

use serde::{Deserialize, Serialize};

use crate::math::vec;
use crate::sets::chi_square::LargestEntries;
use crate::sets::{ChiSquare, Warm};
use crate::{Error, Result};

/// Largest increase of a weight, so that keys and their squares stay in range.
const MOST: f64 = 1e100;

/// Weights in one of the two representations.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Weights {
    Dense(Dense),
    Tree(Tree),
}

impl Weights {
    /// Creates equal weights.
    pub(crate) fn new(set: ChiSquare, tree: bool) -> Self {
        if tree { Weights::Tree(Tree::new(set)) } else { Weights::Dense(Dense::new(set)) }
    }

    /// Resets all weights to be equal.
    pub(crate) fn reset(&mut self) {
        match self {
            Weights::Dense(dense) => dense.reset(),
            Weights::Tree(tree) => tree.reset(),
        }
    }

    /// Returns the sample that a number in [0, 1) selects, where each sample occupies an interval as long as its weight.
    pub(crate) fn find(&self, part: f64) -> usize {
        match self {
            Weights::Dense(dense) => dense.find(part),
            Weights::Tree(tree) => tree.find(part),
        }
    }

    /// Returns p_i.
    pub(crate) fn weight(&self, sample: usize) -> f64 {
        match self {
            Weights::Dense(dense) => dense.p[sample],
            Weights::Tree(tree) => tree.weight(sample),
        }
    }

    /// Adds an amount to the weight of each of the samples, then projects.
    pub(crate) fn raise(&mut self, moves: &[(u32, f64)]) -> Result<()> {
        if let Some((i, bad)) = moves.iter().find(|(_, amount)| !(-MOST..=MOST).contains(amount)) {
            return Err(Error::Problem(format!(
                "the weight of sample {} is to be raised by {bad:.2e}; expected at most {MOST:.0e}, so a smaller eta_p",
                i + 1
            )));
        }
        if moves.iter().all(|&(_, amount)| amount == 0.0) {
            return Ok(());
        }
        match self {
            Weights::Dense(dense) => dense.raise(moves),
            Weights::Tree(tree) => {
                tree.raise(moves);
                Ok(())
            }
        }
    }
}

/// Weights stored one by one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Dense {
    set: ChiSquare,
    p: Vec<f64>,
    warm: Warm,
}

impl Dense {
    fn new(set: ChiSquare) -> Self {
        Dense { p: vec![1.0 / set.samples() as f64; set.samples()], set, warm: Warm::default() }
    }

    fn reset(&mut self) {
        self.p.fill(1.0 / self.set.samples() as f64);
    }

    fn find(&self, part: f64) -> usize {
        // The sum is 1 only up to rounding.
        let mut left = part * vec::sum(&self.p);
        let mut last = 0;
        for (i, &p) in self.p.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            if left < p {
                return i;
            }
            left -= p;
            last = i;
        }
        last
    }

    fn raise(&mut self, moves: &[(u32, f64)]) -> Result<()> {
        for &(i, amount) in moves {
            self.p[i as usize] += amount;
        }
        self.set.project_to(&mut self.p, &mut self.warm)?;
        Ok(())
    }
}

/// Index that stands for no node.
const NONE: u32 = u32::MAX;
/// Scale below which keys are rewritten. A small scale loses no digits, but keys must stay far from the ends of the
/// floating-point range.
const TINY: f64 = 1e-50;
/// Largest distance of the middle, relative to a typical weight, before keys are rewritten: a new key has the rounding error of
/// the middle.
const FAR: f64 = 1e4;

/// Node of samples with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Node {
    key: f64,
    /// Sum of the keys of the samples in this subtree, and of their squares.
    sum: f64,
    squares: f64,
    /// Number of samples in this subtree, and at this node.
    count: u32,
    own: u32,
    left: u32,
    right: u32,
    parent: u32,
    /// The sample if there is a single one; otherwise the index of the list of samples.
    member: u32,
}

/// Number of samples, sum of their keys, and sum of the squares.
#[derive(Clone, Copy, Default)]
struct Sums {
    count: u32,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn and(self, more: Sums) -> Sums {
        Sums { count: self.count + more.count, sum: self.sum + more.sum, squares: self.squares + more.squares }
    }

    fn top(self) -> LargestEntries {
        if self.count == 0 {
            return LargestEntries::default();
        }
        let mean = self.sum / f64::from(self.count);
        LargestEntries { count: self.count as usize, mean, spread: (self.squares - self.sum * mean).max(0.0) }
    }
}

/// Weights in an order-statistic treap, stored in arrays: a step costs the depth of the tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Tree {
    set: ChiSquare,
    nodes: Vec<Node>,
    free: Vec<u32>,
    root: u32,
    /// Node of the samples at the floor, leftmost in the tree.
    floor: u32,
    /// Lists of samples for nodes with more than one, and unused lists.
    lists: Vec<Vec<u32>>,
    free_lists: Vec<u32>,
    /// For each sample, its node and its position in the node's list.
    node_of: Vec<u32>,
    place: Vec<u32>,
    /// u = scale (q - middle) + height
    scale: f64,
    middle: f64,
    height: f64,
    /// Number of projections since keys were last rewritten.
    age: u64,
    /// Buffer.
    #[serde(skip)]
    order: Vec<u32>,
}

/// Returns the heap priority of a node: a hash of its index, which needs neither memory nor a generator.
fn rank(node: u32) -> u64 {
    let mut x = u64::from(node).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Tree {
    fn new(set: ChiSquare) -> Self {
        let n = set.samples();
        let mut tree = Tree {
            set,
            nodes: vec![],
            free: vec![],
            root: NONE,
            floor: NONE,
            lists: vec![],
            free_lists: vec![],
            node_of: vec![0; n],
            place: vec![0; n],
            scale: 1.0,
            middle: 0.0,
            height: 0.0,
            age: 0,
            order: vec![],
        };
        tree.reset();
        tree
    }

    fn reset(&mut self) {
        let n = self.set.samples();
        self.nodes.clear();
        self.free.clear();
        self.free_lists.clear();
        self.free_lists.extend((0..self.lists.len() as u32).rev());
        self.lists.iter_mut().for_each(Vec::clear);
        (self.root, self.floor) = (0, NONE);
        (self.scale, self.middle, self.height, self.age) = (1.0, 0.0, 0.0, 0);
        let member = if n > 1 {
            let list = self.take_list();
            self.lists[list as usize].extend(0..n as u32);
            list
        } else {
            0
        };
        self.nodes.push(Node {
            key: 0.0,
            sum: 0.0,
            squares: 0.0,
            count: n as u32,
            own: n as u32,
            left: NONE,
            right: NONE,
            parent: NONE,
            member,
        });
        self.node_of.fill(0);
        self.place.iter_mut().enumerate().for_each(|(i, place)| *place = i as u32);
    }

    fn at(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    fn at_mut(&mut self, node: u32) -> &mut Node {
        &mut self.nodes[node as usize]
    }

    /// Returns the sums over the subtree of a node.
    fn below(&self, node: u32) -> Sums {
        if node == NONE {
            return Sums::default();
        }
        let Node { count, sum, squares, .. } = *self.at(node);
        Sums { count, sum, squares }
    }

    /// Returns the sums over the samples at a node.
    fn own(&self, node: u32) -> Sums {
        let Node { own, key, .. } = *self.at(node);
        let times = f64::from(own);
        Sums { count: own, sum: times * key, squares: times * key * key }
    }

    fn equal(&self) -> f64 {
        1.0 / self.set.samples() as f64
    }

    /// Returns the weight p of a key.
    fn value(&self, key: f64) -> f64 {
        (self.equal() + (self.scale * (key - self.middle) + self.height)).max(self.set.floor())
    }

    /// Returns the weight p of the samples at a node.
    fn value_at(&self, node: u32) -> f64 {
        if node == self.floor { self.set.floor() } else { self.value(self.at(node).key) }
    }

    fn weight(&self, sample: usize) -> f64 {
        self.value_at(self.node_of[sample])
    }

    /// Returns the total weight of some samples.
    fn mass(&self, of: Sums) -> f64 {
        let count = f64::from(of.count);
        count * (self.equal() + self.height) + self.scale * (of.sum - count * self.middle)
    }

    fn find(&self, part: f64) -> usize {
        let mut left = part * self.mass(self.below(self.root));
        // Search from the largest weight. If rounding leads beyond the last sample, the last one with positive weight is
        // returned.
        let (mut node, mut last) = (self.root, self.root);
        while node != NONE {
            let Node { left: lower, right: upper, own, .. } = *self.at(node);
            let of_upper = self.mass(self.below(upper));
            if upper != NONE && left < of_upper {
                node = upper;
                continue;
            }
            left -= of_upper;
            let each = self.value_at(node);
            let here = f64::from(own) * each;
            if each > 0.0 {
                last = node;
                if left < here {
                    break;
                }
            }
            left -= here;
            node = lower;
        }
        let Node { own, member, .. } = *self.at(last);
        if own == 1 {
            return member as usize;
        }
        let place = (left.max(0.0) / self.value_at(last)) as usize;
        self.lists[member as usize][place.min(own as usize - 1)] as usize
    }

    fn raise(&mut self, moves: &[(u32, f64)]) {
        for &(i, amount) in moves.iter().filter(|(_, amount)| *amount != 0.0) {
            let u = self.weight(i as usize) - self.equal() + amount;
            let key = (u - self.height) / self.scale + self.middle;
            self.take_out(i);
            self.put_in(i, key);
        }
        self.project();
        self.age += 1;
        let far = (self.scale * self.middle).abs() > FAR * (self.equal() + self.height);
        if self.scale < TINY || far || self.age > self.set.samples() as u64 {
            self.rewrite();
        }
    }

    /// Applies proj_U: finds the samples above the floor, updates the map, and moves the others to the floor.
    fn project(&mut self) {
        let set = self.set;
        let scale = self.scale;
        let mut top = self.largest(|top, key| set.above_floor(top, key, scale));
        let mut kap = 1.0;
        if !set.keeps_ball(top.count, scale * scale * top.spread) {
            top = self.largest(|top, key| set.above_floor_in_ball(top, key));
            kap = set.contraction(LargestEntries { spread: scale * scale * top.spread, ..top }).max(1.0);
        }
        self.scale /= kap;
        self.middle = top.mean;
        self.height = set.height(top.count);
        self.put_at_floor((set.samples() - top.count) as u32);
    }

    /// Collects the largest keys as long as `fits` holds for each, given those above it.
    fn largest(&self, fits: impl Fn(LargestEntries, f64) -> bool) -> LargestEntries {
        let (mut node, mut above) = (self.root, Sums::default());
        while node != NONE {
            let Node { left, right, key, .. } = *self.at(node);
            let upper = above.and(self.below(right));
            if fits(upper.top(), key) {
                above = upper.and(self.own(node));
                node = left;
            } else {
                node = right;
            }
        }
        above.top()
    }

    /// Merges the `count` samples with the smallest keys into one node with the key of the floor.
    fn put_at_floor(&mut self, count: u32) {
        self.floor = NONE;
        if count == 0 {
            return;
        }
        let key = (-self.set.depth() - self.height) / self.scale + self.middle;
        let mut node = self.leftmost();
        if self.at(node).own == count {
            self.at_mut(node).key = key;
            self.refresh_up(node);
        } else {
            self.detach(node);
            while self.at(node).own < count {
                let next = self.leftmost();
                self.detach(next);
                node = self.merge(node, next);
            }
            self.at_mut(node).key = key;
            self.attach(node);
        }
        self.floor = node;
    }

    fn leftmost(&self) -> u32 {
        let mut node = self.root;
        while self.at(node).left != NONE {
            node = self.at(node).left;
        }
        node
    }

    /// Merges two nodes that are not in the tree. The shorter list is moved, because every moved sample must be updated.
    fn merge(&mut self, a: u32, b: u32) -> u32 {
        let (from, to) = if self.at(a).own < self.at(b).own { (a, b) } else { (b, a) };
        let Node { own, member, .. } = *self.at(from);
        if own == 1 {
            self.join(member, to);
        } else {
            let mut list = std::mem::take(&mut self.lists[member as usize]);
            list.iter().for_each(|&i| self.join(i, to));
            list.clear();
            self.lists[member as usize] = list;
            self.free_lists.push(member);
        }
        self.free.push(from);
        to
    }

    /// Adds a sample to a node. The sums are not updated.
    fn join(&mut self, sample: u32, node: u32) {
        let Node { own, member, .. } = *self.at(node);
        if own == 1 {
            let list = self.take_list();
            self.lists[list as usize].push(member);
            self.place[member as usize] = 0;
            self.at_mut(node).member = list;
        }
        let list = self.at(node).member as usize;
        self.place[sample as usize] = self.lists[list].len() as u32;
        self.lists[list].push(sample);
        self.node_of[sample as usize] = node;
        self.at_mut(node).own += 1;
    }

    fn take_list(&mut self) -> u32 {
        self.free_lists.pop().unwrap_or_else(|| {
            self.lists.push(vec![]);
            self.lists.len() as u32 - 1
        })
    }

    /// Removes a sample from its node, and the node from the tree if it was the last sample.
    fn take_out(&mut self, sample: u32) {
        let node = self.node_of[sample as usize];
        let Node { own, member, .. } = *self.at(node);
        if own == 1 {
            self.detach(node);
            self.free.push(node);
            if node == self.floor {
                self.floor = NONE;
            }
            return;
        }
        let list = &mut self.lists[member as usize];
        let place = self.place[sample as usize];
        list.swap_remove(place as usize);
        if let Some(&moved) = list.get(place as usize) {
            self.place[moved as usize] = place;
        }
        if let [last] = list[..] {
            list.clear();
            self.free_lists.push(member);
            self.at_mut(node).member = last;
        }
        self.at_mut(node).own -= 1;
        self.refresh_up(node);
    }

    /// Inserts a sample that is in no node according to its key.
    fn put_in(&mut self, sample: u32, key: f64) {
        let mut node = self.root;
        while node != NONE {
            let here = self.at(node);
            if key == here.key {
                self.join(sample, node);
                return self.refresh_up(node);
            }
            node = if key < here.key { here.left } else { here.right };
        }
        let single =
            Node { key, sum: 0.0, squares: 0.0, count: 1, own: 1, left: NONE, right: NONE, parent: NONE, member: sample };
        let node = match self.free.pop() {
            Some(node) => {
                *self.at_mut(node) = single;
                node
            }
            None => {
                self.nodes.push(single);
                self.nodes.len() as u32 - 1
            }
        };
        self.node_of[sample as usize] = node;
        self.attach(node);
    }

    /// Inserts a node that is not in the tree according to its key.
    fn attach(&mut self, node: u32) {
        let key = self.at(node).key;
        let (mut parent, mut next, mut lower) = (NONE, self.root, false);
        while next != NONE {
            parent = next;
            lower = key <= self.at(next).key;
            next = if lower { self.at(next).left } else { self.at(next).right };
        }
        let new = self.at_mut(node);
        (new.left, new.right, new.parent) = (NONE, NONE, parent);
        match parent {
            NONE => self.root = node,
            parent if lower => self.at_mut(parent).left = node,
            parent => self.at_mut(parent).right = node,
        }
        loop {
            let parent = self.at(node).parent;
            if parent == NONE || rank(parent) > rank(node) {
                break;
            }
            self.lift(node);
            self.refresh(parent);
        }
        self.refresh_up(node);
    }

    /// Removes a node from the tree; its samples remain attached to it.
    fn detach(&mut self, node: u32) {
        loop {
            let Node { left, right, .. } = *self.at(node);
            match (left, right) {
                (NONE, NONE) => break,
                (child, NONE) | (NONE, child) => self.lift(child),
                (left, right) => self.lift(if rank(left) > rank(right) { left } else { right }),
            }
        }
        let parent = self.at(node).parent;
        self.replace(parent, node, NONE);
        // Every rotated node is an ancestor of the removed position.
        self.refresh_up(parent);
    }

    /// Rotates a node into the position of its parent, which becomes its child.
    fn lift(&mut self, node: u32) {
        let Node { left, right, parent, .. } = *self.at(node);
        let above = self.at(parent).parent;
        let between = if self.at(parent).left == node {
            self.at_mut(parent).left = right;
            self.at_mut(node).right = parent;
            right
        } else {
            self.at_mut(parent).right = left;
            self.at_mut(node).left = parent;
            left
        };
        if between != NONE {
            self.at_mut(between).parent = parent;
        }
        self.at_mut(parent).parent = node;
        self.at_mut(node).parent = above;
        self.replace(above, parent, node);
    }

    /// Replaces `child` of `parent`, or the root, by `new`.
    fn replace(&mut self, parent: u32, child: u32, new: u32) {
        match parent {
            NONE => self.root = new,
            parent if self.at(parent).left == child => self.at_mut(parent).left = new,
            parent => self.at_mut(parent).right = new,
        }
    }

    /// Recomputes the sums of a node from its children.
    fn refresh(&mut self, node: u32) {
        let Node { left, right, .. } = *self.at(node);
        let Sums { count, sum, squares } = self.below(left).and(self.own(node)).and(self.below(right));
        let here = self.at_mut(node);
        (here.count, here.sum, here.squares) = (count, sum, squares);
    }

    /// Recomputes the sums of a node and all its ancestors.
    fn refresh_up(&mut self, node: u32) {
        let mut node = node;
        while node != NONE {
            self.refresh(node);
            node = self.at(node).parent;
        }
    }

    /// Replaces every key by the value u that it represents.
    fn rewrite(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.push(self.root);
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            let Node { left, right, key, .. } = *self.at(node);
            let u = self.scale * (key - self.middle) + self.height;
            self.at_mut(node).key = if node == self.floor { -self.set.depth() } else { u };
            order.extend([left, right].into_iter().filter(|child| *child != NONE));
            next += 1;
        }
        (self.scale, self.middle, self.height, self.age) = (1.0, 0.0, 0.0, 0);
        for &node in order.iter().rev() {
            self.refresh(node);
        }
        self.order = order;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::rng::{Purpose, Rng};

    /// Checks order, heap property, parents, sums, lists, the map from samples to nodes, and the constraints on P.
    fn check(tree: &Tree) {
        let n = tree.set.samples();
        let mut stack = vec![tree.root];
        let mut seen = vec![false; n];
        let (mut keys, mut walk, mut node) = (vec![], vec![], tree.root);
        while let Some(node) = stack.pop() {
            let Node { left, right, own, member, sum, squares, count, .. } = *tree.at(node);
            for child in [left, right].into_iter().filter(|c| *c != NONE) {
                assert!(tree.at(child).parent == node && rank(child) < rank(node));
                stack.push(child);
            }
            let all = tree.below(left).and(tree.own(node)).and(tree.below(right));
            assert_eq!((all.count, all.sum, all.squares), (count, sum, squares));
            let members = if own == 1 { vec![member] } else { tree.lists[member as usize].clone() };
            assert_eq!(members.len(), own as usize);
            for (place, &i) in members.iter().enumerate() {
                assert!(!std::mem::replace(&mut seen[i as usize], true));
                assert_eq!(tree.node_of[i as usize], node);
                assert!(own == 1 || tree.place[i as usize] == place as u32);
            }
        }
        assert!(seen.iter().all(|s| *s));
        while node != NONE || !walk.is_empty() {
            while node != NONE {
                walk.push(node);
                node = tree.at(node).left;
            }
            if let Some(last) = walk.pop() {
                keys.push(tree.at(last).key);
                node = tree.at(last).right;
            }
        }
        assert!(keys.windows(2).all(|k| k[0] <= k[1]), "{keys:?}");
        assert_eq!(tree.at(tree.root).count as usize, n);
        let u = |i| tree.weight(i) - 1.0 / n as f64;
        assert!(vec::sum_by(n, u).abs() < 1e-13, "{}", vec::sum_by(n, u));
        assert!((0..n).all(|i| tree.weight(i) >= tree.set.floor()));
        assert!(tree.nodes.len() <= n + 1 && tree.lists.iter().filter(|l| !l.is_empty()).count() <= tree.nodes.len());
    }

    struct Seen {
        ball: bool,
        floor: bool,
        left_floor: bool,
        rewritten: u32,
        worst: f64,
    }

    /// Applies the same increases in both representations and returns the largest difference of weights, relative to equal
    /// weights.
    fn compare(n: usize, rho: f64, delta: f64, eta: f64, batch: usize, steps: usize) -> Seen {
        let set = ChiSquare::new(n, rho, delta).unwrap();
        let mut rng = Rng::new(5, Purpose::Sampling);
        let (mut tree, mut dense) = (Tree::new(set), Dense::new(set));
        let mut seen = Seen { ball: false, floor: false, left_floor: false, rewritten: 0, worst: 0.0 };
        let mut moves = vec![];
        for step in 0..steps {
            moves.clear();
            for _ in 0..batch {
                let i = tree.find(rng.uniform());
                // Losses that vary between samples; some are 0 and some negative.
                let loss = (i % 7) as f64 * rng.uniform() - if i % 11 == 3 { 1.0 } else { 0.0 };
                moves.push((i as u32, eta * loss / dense.p[i] / batch as f64));
            }
            let (age, scale, at_floor) = (tree.age, tree.scale, if tree.floor == NONE { 0 } else { tree.at(tree.floor).own });
            tree.raise(&moves);
            dense.raise(&moves).unwrap();
            seen.ball |= tree.scale < scale;
            seen.floor |= tree.floor != NONE;
            seen.left_floor |= at_floor > moves.len() as u32 && tree.floor == NONE;
            seen.rewritten += u32::from(tree.age <= age);
            if step % 50 == 0 || step + 1 == steps {
                check(&tree);
                for i in 0..n {
                    seen.worst = seen.worst.max((tree.weight(i) - dense.p[i]).abs() * n as f64);
                }
            }
        }
        seen
    }

    #[test]
    fn the_tree_equals_the_dense_form() {
        let (mut balls, mut floors, mut left) = (0, 0, 0);
        for (n, rho, delta, eta, batch) in [
            (50, 20.0, 0.1, 1e-4, 1),
            (50, 5.0, 0.3, 1e-3, 1),
            (50, 100.0, 1e-5, 1e-4, 4),
            (200, 1.0, 1e-5, 1e-6, 1),
            (200, 500.0, 0.0, 1e-5, 1),
            (1000, 1e3, 1e-5, 1e-7, 3),
            (1000, 1e9, 0.2, 1e-6, 1),
            (300, 1e-6, 0.5, 1e-6, 1),
            (2, 0.04, 0.0, 1e-2, 1),
            (1, 1.0, 0.0, 1e-2, 1),
        ] {
            let seen = compare(n, rho, delta, eta, batch, 2500);
            assert!(seen.worst < 1e-10, "{n} {rho} {delta} {eta}: {:e}", seen.worst);
            balls += u32::from(seen.ball && seen.floor);
            floors += u32::from(seen.floor);
            left += u32::from(seen.left_floor);
        }
        assert!(balls >= 3 && floors >= 4 && left >= 1, "{balls} {floors} {left}");
    }

    #[test]
    fn long_runs_write_keys_anew() {
        for (n, rho, delta, eta) in [(100, 30.0, 0.05, 1e-4), (3000, 50.0, 1e-5, 1e-8), (40, 10.0, 0.2, 1e-1)] {
            let seen = compare(n, rho, delta, eta, 1, 20_000);
            assert!(seen.worst < 1e-10 && seen.ball && seen.rewritten > 3, "{n}: {:e}, {}", seen.worst, seen.rewritten);
        }
    }

    /// A weight at the floor of 1e-5 / n is increased by n 1e5 and more, with the ball inactive and active: the others lose no
    /// digits.
    #[test]
    fn huge_raises_lose_no_digits() {
        for rho in [1.0, 100.0, 1e9] {
            let set = ChiSquare::new(100, rho, 1e-5).unwrap();
            let (mut tree, mut dense) = (Tree::new(set), Dense::new(set));
            let mut rng = Rng::new(1, Purpose::Sampling);
            for step in 0..2000 {
                let amount = if step % 3 == 0 { 1e7 * rng.uniform() } else { 0.02 * rng.uniform() };
                let moves = [(rng.below(100) as u32, amount)];
                tree.raise(&moves);
                dense.raise(&moves).unwrap();
                let worst = (0..100).map(|i| (tree.weight(i) - dense.p[i]).abs()).fold(0.0, f64::max);
                assert!(worst < 1e-12, "{rho}, step {step}: {worst:e}");
            }
            check(&tree);
        }
    }

    /// Both representations give each sample an interval of [0, 1) as long as its weight.
    #[test]
    fn samples_are_found_by_their_weight() {
        let set = ChiSquare::new(40, 1e4, 0.0).unwrap();
        for tree in [false, true] {
            let mut weights = Weights::new(set, tree);
            let mut rng = Rng::new(3, Purpose::Sampling);
            for _ in 0..30 {
                let i = weights.find(rng.uniform());
                weights.raise(&[(i as u32, 0.1 * rng.uniform())]).unwrap();
            }
            let parts = 200_000;
            let mut hits = [0_u32; 40];
            (0..parts).for_each(|k| hits[weights.find((f64::from(k) + 0.5) / f64::from(parts))] += 1);
            for (i, &hits) in hits.iter().enumerate() {
                let (got, wanted) = (f64::from(hits) / f64::from(parts), weights.weight(i));
                assert!((got - wanted).abs() < 2.0 / f64::from(parts), "sample {i}: {got} against {wanted}");
            }
            assert!((0..40).any(|i| weights.weight(i) == 0.0), "no weight is at the floor of 0");
            // The ends of the interval select a sample with positive weight.
            for part in [0.0, 1.0 - f64::EPSILON / 2.0] {
                assert!(weights.weight(weights.find(part)) > 0.0);
            }
        }
    }

    /// Losses 1 and 3: P converges to (.4, .6), where the worst case is 2.2.
    #[test]
    fn constant_losses_drive_the_weights_to_the_worst_case() {
        let mut weights = Weights::new(ChiSquare::new(2, 0.04, 0.0).unwrap(), true);
        let mut rng = Rng::new(2, Purpose::Sampling);
        for _ in 0..20_000 {
            let i = weights.find(rng.uniform());
            let amount = 1e-4 * [1.0, 3.0][i] / weights.weight(i);
            weights.raise(&[(i as u32, amount)]).unwrap();
        }
        let worst = weights.weight(0) + 3.0 * weights.weight(1);
        assert!((worst - 2.2).abs() < 1e-3, "{worst}");
    }

    #[test]
    fn a_saved_tree_goes_on_bit_for_bit() {
        let set = ChiSquare::new(60, 20.0, 0.05).unwrap();
        let mut one = Weights::new(set, true);
        let mut rng = Rng::new(9, Purpose::Sampling);
        let run = |weights: &mut Weights, rng: &mut Rng| {
            for _ in 0..500 {
                let i = weights.find(rng.uniform());
                let amount = 1e-4 * rng.uniform() / weights.weight(i);
                weights.raise(&[(i as u32, amount)]).unwrap();
            }
        };
        run(&mut one, &mut rng);
        let mut two: Weights = postcard::from_bytes(&postcard::to_stdvec(&one).unwrap()).unwrap();
        let mut again = rng.clone();
        run(&mut one, &mut rng);
        run(&mut two, &mut again);
        assert!((0..60).all(|i| one.weight(i).to_bits() == two.weight(i).to_bits()));
        one.reset();
        assert!((0..60).all(|i| one.weight(i) == 1.0 / 60.0));
        run(&mut one, &mut rng);
        let Weights::Tree(tree) = &one else { panic!("no tree") };
        check(tree);
    }

    #[test]
    fn raises_beyond_all_measure_are_refused() {
        let mut weights = Weights::new(ChiSquare::new(3, 1.0, 0.0).unwrap(), true);
        for bad in [f64::NAN, f64::INFINITY, 1e200, -1e200] {
            let message = weights.raise(&[(0, bad)]).unwrap_err().to_string();
            assert!(message.contains("expected at most 1e100"), "{message}");
        }
        assert_eq!(weights.weight(0), 1.0 / 3.0);
    }
}
