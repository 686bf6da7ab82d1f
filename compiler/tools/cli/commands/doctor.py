"""`flowloom doctor`: what works on this machine, and what to install."""

import json
from argparse import Namespace
from textwrap import fill

from compiler.tools.cli.doctor import examine, targets


def run(options: Namespace) -> int:
    """Print the checks and what each target can do; exit status 1 if a check says `broken`."""
    checks = examine()
    able = targets(checks)
    broken = any(check.status == "broken" for section in checks.values() for check in section)
    if options.json:
        sections = {name: [check.as_json() for check in listed] for name, listed in checks.items()}
        print(json.dumps({"checks": sections, "targets": able}))
        return int(broken)
    for section, listed in checks.items():
        print(section)
        for check in listed:
            print(fill(check.line(), 100, initial_indent="  ", subsequent_indent=" " * 25))
    print("Targets")
    for target, text in able.items():
        print(f"  {target:6} {text}")
    return int(broken)
