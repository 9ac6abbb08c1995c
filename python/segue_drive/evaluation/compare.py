"""Two evaluations side by side: `python -m segue_drive.evaluation.compare OLD.jsonl NEW.jsonl`

Lines are matched by name; the same seed and number of cases make them comparable case by case. A difference between shares is called certain when
their intervals don't overlap.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def read(path: Path) -> dict[str, dict]:
    return {line["name"]: line for line in map(json.loads, path.read_text().splitlines())}


def shown(line: dict | None) -> str:
    if line is None:
        return "–"
    if line["unit"] != "share" or "interval" not in line:
        return f"{line['value']:g}"
    low, high = line["interval"]
    return f"{100 * line['value']:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


def certain(old: dict | None, new: dict | None) -> str:
    if not old or not new or "interval" not in old or "interval" not in new:
        return ""
    if new["interval"][0] > old["interval"][1]:
        return "better"
    return "worse" if new["interval"][1] < old["interval"][0] else ""


def table(old: dict[str, dict], new: dict[str, dict]) -> str:
    rows = ["| line | old | new | bar | holds: old, new | certain |", "|---|---|---|---|---|---|"]
    for name in {**old, **new}:
        a, b = old.get(name), new.get(name)
        verdicts = ", ".join({True: "yes", False: "no", None: "–"}[(line or {}).get("passed")] for line in (a, b))
        bar = (b or a or {}).get("bar", "")
        rows.append(f"| {name} | {shown(a)} | {shown(b)} | {bar} | {verdicts if bar else ''} | {certain(a, b)} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    args = parser.parse_args()
    print(table(read(args.old), read(args.new)))


if __name__ == "__main__":
    main()
