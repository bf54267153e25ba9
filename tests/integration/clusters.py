"""A Postgres cluster of a check's own, or the skip that says why there is none."""

import contextlib
import sys

from harness import ROOT, Missing

sys.path.insert(0, str(ROOT / "tests" / "lib"))
import postgres  # noqa: E402

DATABASE = postgres.DATABASE


@contextlib.contextmanager
def own_cluster(settings=None):
    try:
        with postgres.Cluster(settings=settings) as cluster:
            yield cluster
    except postgres.Missing as missing:
        raise Missing(str(missing)) from missing
