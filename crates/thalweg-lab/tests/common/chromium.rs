//! A headless Chromium for tests of pages, driven over its DevTools protocol. What a page should show is said by the tests;
//! everything here panics with a sentence when something goes wrong.

use std::cell::RefCell;
use std::fs::File;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

/// How long anything may take: a start, an answer, a download.
const PATIENCE: Duration = Duration::from_secs(20);
/// Where a browser may be, if THALWEG_CHROMIUM does not say: names are looked up in PATH.
const NAMES: [&str; 4] = ["/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome"];

/// A browser of its own, with an empty profile. It ends when this is dropped, also by a panic.
pub struct Browser {
    child: Child,
    profile: Option<tempfile::TempDir>,
    connection: Rc<RefCell<Connection>>,
}

impl Browser {
    /// The program, if there is one.
    pub fn find() -> Option<PathBuf> {
        let found = |name: &str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            // A name with a slash in it is not looked up: joining keeps an absolute one as it is.
            let places = if name.contains('/') { vec![PathBuf::new()] } else { std::env::split_paths(&path).collect() };
            places.into_iter().map(|place| place.join(name)).find(|file| file.is_file())
        };
        match std::env::var("THALWEG_CHROMIUM").ok().filter(|name| !name.is_empty()) {
            Some(name) => Some(found(&name).unwrap_or_else(|| panic!("THALWEG_CHROMIUM is {name}: there is no such program"))),
            None => NAMES.into_iter().find_map(found),
        }
    }

    /// A browser for a test. Without one the test is skipped, which is to return; in CI it fails.
    pub fn for_test(test: &str) -> Option<Browser> {
        if Browser::find().is_some() {
            return Some(Browser::start());
        }
        let how = "needs Chromium: apt-get install chromium, or set THALWEG_CHROMIUM";
        assert!(std::env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{test} is not skipped in CI: it {how}");
        super::skipped(test, how);
        None
    }

    /// Starts it.
    pub fn start() -> Browser {
        let program = Browser::find().expect("there is no Chromium; expected one in PATH or in THALWEG_CHROMIUM");
        let profile = tempfile::tempdir().unwrap();
        let log = profile.path().join("stderr.txt");
        let mut child = Command::new(&program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--force-color-profile=srgb", "--hide-scrollbars", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap_or_else(|e| panic!("{} cannot be started: {e}", program.display()));
        let place = profile.path().join("DevToolsActivePort");
        let begun = Instant::now();
        let address = loop {
            // Two lines: the port, and the path of the browser's own socket. The file may be seen before it is whole.
            let text = std::fs::read_to_string(&place).unwrap_or_default();
            if let Some((port, path)) = text.trim_end().split_once('\n') {
                break (port.parse::<u16>().unwrap(), path.to_string());
            }
            let ended = child.try_wait().unwrap();
            if ended.is_some() || begun.elapsed() > PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                panic!("{} did not open its debugging port ({ended:?}): {said}", program.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let connection = Connection::open(address.0, &address.1).unwrap_or_else(|e| {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{} cannot be spoken to: {e}", program.display())
        });
        Browser { child, profile: Some(profile), connection: Rc::new(RefCell::new(connection)) }
    }

    /// The directory with its files.
    pub fn profile(&self) -> PathBuf {
        self.profile.as_ref().unwrap().path().into()
    }

    /// Opens a page in a window of this size and waits until it is loaded.
    #[track_caller]
    pub fn open(&self, url: &str, width: u32, height: u32) -> Page {
        let call = |session: Option<&str>, method: &str, parameters: Value| {
            self.connection.borrow_mut().call(session, method, parameters)
        };
        let target = call(None, "Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = call(None, "Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        let session = attached["sessionId"].as_str().unwrap().to_string();
        let page = Page { connection: Rc::clone(&self.connection), session };
        // Before the page is there, so that nothing it says is missed.
        for domain in ["Page", "Runtime", "Log"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.resize(width, height);
        let went = page.call("Page.navigate", json!({ "url": url }));
        assert!(went.get("errorText").is_none(), "{url} cannot be opened: {}", went["errorText"]);
        page.connection
            .borrow_mut()
            .wait(&format!("{url} to be loaded"), |event| event.method == "Page.loadEventFired" && event.session == page.session);
        page
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked politely it ends its own children too.
        if let Ok(mut connection) = self.connection.try_borrow_mut() {
            let _ = connection.send(None, "Browser.close", json!({}));
        }
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A child may still be writing for a moment.
        if let Some(profile) = self.profile.take() {
            let path = profile.keep();
            for _ in 0..50 {
                if std::fs::remove_dir_all(&path).is_ok() || !path.exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// A page in a browser.
pub struct Page {
    connection: Rc<RefCell<Connection>>,
    session: String,
}

impl Page {
    /// The value of an expression, awaited if it is a promise. What it throws is a panic.
    #[track_caller]
    pub fn eval(&self, js: &str) -> Value {
        let parameters = json!({ "expression": js, "returnByValue": true, "awaitPromise": true, "userGesture": true });
        let answer = self.call("Runtime.evaluate", parameters);
        if let Some(thrown) = answer.get("exceptionDetails") {
            panic!("{js}: {}", exception(thrown));
        }
        answer["result"].get("value").cloned().unwrap_or(Value::Null)
    }

    /// Clicks on the middle of the first element of a selector, scrolled into view. It must be in front.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let (x, y) = self.middle(selector);
        let covered = format!(
            "(() => {{ const e = document.querySelector({selector}), top = document.elementFromPoint({x}, {y}); \
             return top && (e.contains(top) || top.contains(e)) ? null : top ? top.outerHTML.slice(0, 200) : 'nothing' }})()",
            selector = json!(selector)
        );
        let covered = self.eval(&covered);
        assert!(covered.is_null(), "{selector} cannot be clicked: at its middle is {covered}");
        self.mouse_move(x, y);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// The middle of the first element of a selector in the window, after scrolling to it.
    #[track_caller]
    pub fn middle(&self, selector: &str) -> (f64, f64) {
        let place = self.eval(&format!(
            "(() => {{ const e = document.querySelector({}); if (!e) return null; \
             e.scrollIntoView({{ block: 'center', inline: 'nearest', behavior: 'instant' }}); \
             const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2, r.width, r.height] }})()",
            json!(selector)
        ));
        let number = |i: usize| place.get(i).and_then(Value::as_f64);
        let (Some(x), Some(y), Some(width), Some(height)) = (number(0), number(1), number(2), number(3)) else {
            panic!("{selector}: there is no such element");
        };
        assert!(width > 0.0 || height > 0.0, "{selector}: the element is not shown");
        (x, y)
    }

    /// Chooses a value of a `<select>`, as a person does.
    #[track_caller]
    pub fn select(&self, selector: &str, value: &str) {
        let done = self.eval(&format!(
            "(() => {{ const e = document.querySelector({}), v = {}; if (!e) return 'there is no such element'; \
             if (![...e.options].some(o => o.value === v)) return 'its values are ' + [...e.options].map(o => o.value).join(', '); \
             e.value = v; for (const type of ['input', 'change']) e.dispatchEvent(new Event(type, {{ bubbles: true }})); }})()",
            json!(selector),
            json!(value)
        ));
        assert!(done.is_null(), "{selector}: {value} cannot be chosen: {done}");
    }

    /// Moves the mouse to a place in the window.
    pub fn mouse_move(&self, x: f64, y: f64) {
        self.call("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y }));
    }

    /// Gives the window another size.
    pub fn resize(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Writes a picture of the whole page as PNG.
    pub fn screenshot(&self, file: &Path) {
        let size = self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"].clone();
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
        let asked = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let picture = self.call("Page.captureScreenshot", asked);
        std::fs::write(file, from_base64(picture["data"].as_str().unwrap())).unwrap();
    }

    /// Downloads go to this directory from now on.
    pub fn download_to(&self, dir: &Path) {
        let asked = json!({ "behavior": "allow", "downloadPath": dir, "eventsEnabled": true });
        self.connection.borrow_mut().call(None, "Browser.setDownloadBehavior", asked);
    }

    /// Waits for the next download to be finished; returns the name that the page gave it. The file is where
    /// [`Page::download_to`] said.
    #[track_caller]
    pub fn downloaded(&self) -> String {
        let mut connection = self.connection.borrow_mut();
        let begun = connection.wait("a download to begin", |event| event.method == "Browser.downloadWillBegin");
        let ended = connection.wait("a download to end", |event| {
            event.method == "Browser.downloadProgress"
                && event.parameters["guid"] == begun.parameters["guid"]
                && event.parameters["state"] != "inProgress"
        });
        let name = begun.parameters["suggestedFilename"].as_str().unwrap().to_string();
        assert_eq!(ended.parameters["state"], "completed", "the download of {name} did not end well");
        name
    }

    /// Everything that went wrong so far: exceptions, errors and warnings of the console, entries of the browser's log.
    pub fn console(&self) -> Vec<String> {
        // What was said before this is answered has arrived with it.
        self.eval("0");
        let connection = self.connection.borrow();
        let mine = connection.said.iter().filter(|event| event.session == self.session);
        mine.map(|event| event.words()).collect()
    }

    #[track_caller]
    fn call(&self, method: &str, parameters: Value) -> Value {
        self.connection.borrow_mut().call(Some(&self.session), method, parameters)
    }
}

/// Something that the browser reports.
struct Event {
    session: String,
    method: String,
    parameters: Value,
}

impl Event {
    /// It belongs into the console of a page.
    fn complains(&self) -> bool {
        match self.method.as_str() {
            "Runtime.exceptionThrown" | "Log.entryAdded" => true,
            "Runtime.consoleAPICalled" => ["error", "warning", "assert"].iter().any(|kind| self.parameters["type"] == *kind),
            _ => false,
        }
    }

    fn words(&self) -> String {
        let p = &self.parameters;
        match self.method.as_str() {
            "Runtime.exceptionThrown" => format!("exception: {}", exception(&p["exceptionDetails"])),
            "Log.entryAdded" => {
                let (level, text, url) = (&p["entry"]["level"], &p["entry"]["text"], &p["entry"]["url"]);
                format!("log, {}: {} {}", plain(level), plain(text), plain(url))
            }
            _ => {
                let each = p["args"].as_array().into_iter().flatten();
                let each = each.map(|a| plain(a.get("value").or(a.get("description")).unwrap_or(a)));
                format!("console, {}: {}", plain(&p["type"]), each.collect::<Vec<_>>().join(" "))
            }
        }
    }
}

/// Text without quotation marks; anything else as JSON, and nothing for nothing.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn exception(details: &Value) -> String {
    let described = details["exception"].get("description").or(details["exception"].get("value"));
    plain(described.unwrap_or(&details["text"]))
}

/// One socket to the browser, which carries the sessions of all its pages.
struct Connection {
    socket: WebSocket<TcpStream>,
    last: u64,
    /// Reported and not yet waited for.
    events: Vec<Event>,
    /// Complaints of pages.
    said: Vec<Event>,
}

impl Connection {
    fn open(port: u16, path: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        // Pictures and values of pages may be large.
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let address = format!("ws://127.0.0.1:{port}{path}");
        let opened = tungstenite::client::client_with_config(address.as_str(), stream, Some(config));
        let (socket, _) = opened.map_err(|e| e.to_string())?;
        Ok(Connection { socket, last: 0, events: vec![], said: vec![] })
    }

    fn send(&mut self, session: Option<&str>, method: &str, parameters: Value) -> Result<u64, Error> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        self.socket.send(Message::text(message.to_string()))?;
        Ok(self.last)
    }

    /// The next message: an answer, or none if it was an event, which is kept.
    #[track_caller]
    fn read(&mut self, waited_for: &str, begun: Instant) -> Option<Value> {
        assert!(begun.elapsed() < PATIENCE, "Chromium did not get through in {PATIENCE:?}: waited for {waited_for}");
        let message = self.socket.read().unwrap_or_else(|e| match e {
            Error::Io(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("Chromium said nothing for {PATIENCE:?}: waited for {waited_for}")
            }
            e => panic!("Chromium has gone: {e}; waited for {waited_for}"),
        });
        let Message::Text(text) = message else { return None };
        let mut message: Value = serde_json::from_str(&text).unwrap();
        if message.get("id").is_some() {
            return Some(message);
        }
        let event = Event {
            session: plain(&message["sessionId"]),
            method: plain(&message["method"]),
            parameters: message["params"].take(),
        };
        if event.complains() {
            self.said.push(event)
        } else {
            self.events.push(event)
        }
        None
    }

    #[track_caller]
    fn call(&mut self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        let id = self.send(session, method, parameters).unwrap_or_else(|e| panic!("Chromium has gone: {e}; asked {method}"));
        let begun = Instant::now();
        loop {
            // Answers to others are those that nobody waited for.
            if let Some(mut answer) = self.read(method, begun).filter(|answer| answer["id"] == id) {
                assert!(answer.get("error").is_none(), "Chromium refuses {method}: {}", answer["error"]);
                return answer["result"].take();
            }
        }
    }

    /// The first event like this that was not waited for before.
    #[track_caller]
    fn wait(&mut self, what: &str, like: impl Fn(&Event) -> bool) -> Event {
        let begun = Instant::now();
        loop {
            if let Some(i) = self.events.iter().position(&like) {
                return self.events.remove(i);
            }
            self.read(what, begun);
        }
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("'{}' is not base64", char::from(c)),
    };
    let mut bytes = vec![];
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().fold(0u32, |bits, &c| (bits << 6) | u32::from(digit(c))) << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}
