#!/usr/bin/env python3
"""Servers that are stopped, killed and stalled under the built bench, disks that are full, clocks
that jump, and what an open loop shows of a stall.

usage: run_faults.py BENCH        one line a case, then "N passed, N failed, N skipped"
"""

import sys

sys.dont_write_bytecode = True  # a test run leaves nothing in the tree
import harness  # noqa: E402
import full_disk  # noqa: E402, F401: its checks are in CHECKS
import open_loop  # noqa: E402, F401
import servers  # noqa: E402, F401


def main():
    harness.begin()
    return harness.finish()


if __name__ == "__main__":
    sys.exit(main())
