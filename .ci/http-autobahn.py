"""Runs cases of Autobahn's suite against a server that echoes, and fails unless all pass.

Arguments: the folder of the library, a folder for reports, the server's URL, the number of cases,
and the patterns of their names. Python 2.7, as the suite."""

import io
import json
import os
import site
import sys

library, folder, url, count = sys.argv[1:5]
site.addsitedir(library)
from autobahntestsuite.wstest import run

agent = "ramie-http"
spec = {
    "outdir": os.path.join(folder, "report"),
    "servers": [{"agent": agent, "url": url, "options": {"version": 18}}],
    "cases": sys.argv[5:],
    "exclude-cases": [],
    "exclude-agent-cases": {},
}
path = os.path.join(folder, "cases.json")
with io.open(path, "wb") as file:
    file.write(json.dumps(spec).encode())
sys.argv = ["wstest", "--mode", "fuzzingclient", "--spec", path]
log, sys.stdout = sys.stdout, io.open(os.devnull, "wb")
run()
sys.stdout = log

with io.open(os.path.join(spec["outdir"], "index.json")) as file:
    cases = json.load(file)[agent]
# The suite has one way of its own to answer cases that the standard leaves open.
passed = ["OK", "NON-STRICT", "INFORMATIONAL"]
failed = dict(
    (name, [case["behavior"], case["behaviorClose"]])
    for name, case in cases.items()
    if case["behavior"] not in passed or case["behaviorClose"] not in passed
)
for name, behaviors in sorted(failed.items()):
    print("%s: %s" % (name, ", ".join(behaviors)))
if len(cases) != int(count):
    print("%d cases instead of %s" % (len(cases), count))
if failed or len(cases) != int(count):
    sys.exit(1)
print("Autobahn: %d cases passed" % len(cases))
