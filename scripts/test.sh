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
# test-faults and test-e2e are run by hand (`make test-faults test-e2e`): two sessions with two browsers beside them miss pictures on two
# busy cores, and a gate that fails by the load of its machine gates nothing. They belong here as soon as they hold on such a machine.
