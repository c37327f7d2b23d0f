"""Prints the counts of JUnit files as one line in the form of cargo's."""

import sys
import xml.etree.ElementTree as ElementTree

passed = failed = skipped = 0
for path in sys.argv[1:]:
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        tests, wrong, left = (int(suite.get(name, 0)) for name in ("tests", "failures", "skipped"))
        wrong += int(suite.get("errors", 0))
        passed += tests - wrong - left
        failed += wrong
        skipped += left
print(f"test result: {'FAILED' if failed or not passed else 'ok'}. {passed} passed; {failed} failed; {skipped} ignored")
