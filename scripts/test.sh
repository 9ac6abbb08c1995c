#!/usr/bin/env bash
# All that CI runs, in the order in which failures are cheapest to find. Prints how long each part took.
set -euo pipefail
cd "$(dirname "$0")/.."

part() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  "$@"
  printf '== %s: %d s\n' "$name" $((SECONDS - begin))
}

part lint make -s lint
part unit make -s test-unit
part interruption make -s test-interruption
part faults make -s test-faults
part e2e make -s test-e2e
