"""Tables of fair classifiers: Thalweg, fairlearn, oxonfair and scikit-learn on published and made-up data, over several seeds.

``fairness_tables.py`` runs them and writes a page and all results as JSON.
"""
