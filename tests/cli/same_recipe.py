"""same_recipe.py SHOW_A SHOW_B PRICE_A PRICE_B: JSON of `show` and `price` of a recipe and of its export, read back.

What a person or the model set has the same value in both, and so have step time and peak memory.
"""
import json
import sys

a, b, price_a, price_b = (json.load(open(path)) for path in sys.argv[1:])
bad = []
for key, was in a["knobs"].items():
    ours = key.startswith(("moefold.", "cluster.")) or key == "mixed_precision"
    if not ours and was["from"] in ("user", "model") and was["value"] != b["knobs"][key]["value"]:
        bad.append((key, was["value"], b["knobs"][key]["value"]))
for key in ("step_s", "peak_bytes"):
    if price_a[key] != price_b[key]:
        bad.append((key, price_a[key], price_b[key]))
for row in bad:
    print(*row)
sys.exit(bool(bad))
