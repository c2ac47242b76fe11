"""Every item of the documents has a test, and docs/SEEDS.md says so. The tests are in test_seeds_*.py."""

import subprocess
import sys

import children
import seeds


def test_every_item_has_a_test():
    items = [(document, text) for document, texts in seeds.ITEMS.items() for text in texts]
    assert len(items) == len(set(items)) == 147
    found = seeds.load()
    assert set(found) == set(items), sorted(set(items) ^ set(found))
    for made in found.values():
        module, _, name = made.test.partition("::")
        assert hasattr(sys.modules[module], name) and name.startswith("test_"), made.test
    assert len({made.test for made in found.values()}) == len(found)


def test_the_page_is_up_to_date():
    command = [sys.executable, "tools/seed_items.py", "--check"]
    done = subprocess.run(command, cwd=children.ROOT, env=children.environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
