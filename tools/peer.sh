#!/usr/bin/env bash
# Runs the peer harness: PyTorch's own test/dynamo suites, and a zoo of real models beside TorchDynamo.
#   tools/peer.sh PEER_FOLDER [suites|zoo|all]
# PEER_FOLDER holds run_suite.py, zoo.py and get_suites.sh. Settings come from the environment:
#   PYTHON     interpreter with torch, transformers and this package's build (.venv/bin/python)
#   FRONTEND   stator or dynamo for the suites (stator)
#   SUITES     names of test files (all open ones)      MODELS  of the zoo (open)      MODES (forward,train)
#   PEER_SRC   where the sources of the suites are put, outside git (bench-out/peer-src)
#   OUT        where results go (bench-out)             JOBS    suites at a time (2)
set -euo pipefail
peer=$(cd "${1:?usage: tools/peer.sh PEER_FOLDER [suites|zoo|all]}" && pwd)
what=${2:-all}
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
frontend=${FRONTEND:-stator}
suites=${SUITES:-test_functions test_modules test_subgraphs test_ctx_manager test_unspec test_exceptions test_global test_nops test_interop test_sdpa}
out=${OUT:-$root/bench-out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"

run_suites() {
  local src
  src=$("$peer/get_suites.sh" "${PEER_SRC:-$out/peer-src}" | tail -n 1)
  local wanted=()
  for suite in $suites; do wanted+=(--suite "$suite"); done
  "$python" "$peer/run_suite.py" --frontend "$frontend" "${wanted[@]}" --src "$src" --jobs "${JOBS:-2}" \
    --out "$out/suites_$frontend.json" --compare "$peer/baseline_dynamo.json" --failures
}

run_zoo() {
  # Both front ends in one run, alternating: figures of two separate runs cannot be compared.
  local side=both
  [ "$frontend" = stator ] || side=$frontend
  "$python" "$peer/zoo.py" --frontend "$side" --models "${MODELS:-open}" --mode "${MODES:-forward,train}" \
    --out "$out/zoo.json" --fresh --why
}

case $what in
  suites) run_suites ;;
  zoo) run_zoo ;;
  all) run_suites && run_zoo ;;
  *) echo "tools/peer.sh: no part '$what'; there are suites, zoo, all" >&2; exit 2 ;;
esac
