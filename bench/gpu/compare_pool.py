#!/usr/bin/env python3
"""Reads the lines that pool_torch.py printed and says what they mean side by side: compare_pool.py LOG [--json FILE]"""
import json
import sys


def read(path):
    results = {}
    for line in open(path, errors="replace"):
        if line.startswith("RESULT "):
            result = json.loads(line[len("RESULT "):])
            results[result["label"]] = result
    return results


def main():
    results = read(sys.argv[1])
    print(f"{'run':<26}{'steps':>6}{'ms/step':>9}{'allocated':>11}{'reserved':>10}{'ratio':>7}  losses")
    for label, result in results.items():
        if "losses" not in result:
            continue
        base = results.get(result["workload"] + "/native", {}).get("losses", [])
        count = min(len(base), len(result["losses"]))
        same = "equal" if count and base[:count] == result["losses"][:count] else "DIFFERENT" if count else "-"
        gib = 2.0 ** 30
        print(f"{label:<26}{result['steps']:>6}{result['step_ms']:>9.2f}{result['peak_allocated'] / gib:>10.3f}G"
              f"{result['peak_reserved'] / gib:>9.3f}G"
              f"{result['peak_reserved'] / max(1, result['peak_allocated']):>7.3f}  {same}"
              + (f"  OOM caught: {result['oom_caught']}" if result["oom_caught"] is not None else "")
              + (f"  DIED at step {result['died']['step']}" if result["died"] else ""))
    for label, result in results.items():
        if "checks" in result:
            print(label, json.dumps(result["checks"]))
    if "--json" in sys.argv:
        with open(sys.argv[sys.argv.index("--json") + 1], "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
