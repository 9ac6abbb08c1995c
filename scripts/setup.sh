#!/usr/bin/env bash
# Brings everything that Segue needs: Debian packages, npm packages with the pinned Node, the codec addon, the page.
# Usage: scripts/setup.sh serve|test    (test adds Chromium). Every step is skipped when it is up to date.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-serve}

fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
say() { printf 'setup: %s\n' "$*"; }

command -v node >/dev/null || fail 'no node found: any Node.js from 18 on will do to install the pinned one'
major=$(node -p 'process.versions.node.split(".")[0]')
[ "$major" -ge 18 ] || fail "Node.js $(node -v) is too old to install the pinned one: 18 or later is needed"
command -v c++ >/dev/null || fail 'no C++ compiler found (Debian: apt-get install g++)'

# Debian packages, named by what their absence breaks.
packages=()
command -v pkg-config >/dev/null || packages+=(pkg-config)
for header in vpx/vpx_encoder.h:libvpx-dev opus/opus.h:libopus-dev libyuv.h:libyuv-dev; do
  printf '#include <%s>\n' "${header%%:*}" | c++ -E -x c++ - >/dev/null 2>&1 || packages+=("${header##*:}")
done
if [ "$mode" = test ] && ! command -v chromium >/dev/null; then packages+=(chromium fonts-dejavu-core); fi
if [ ${#packages[@]} -gt 0 ]; then
  install=(apt-get install -y --no-install-recommends "${packages[@]}")
  if ! command -v apt-get >/dev/null; then fail "missing: ${packages[*]} (Debian names); install them and run this again"; fi
  if [ "$(id -u)" = 0 ]; then
    say "installing ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && "${install[@]}" >/dev/null
  elif command -v sudo >/dev/null && [ -t 0 ]; then
    say "missing: ${packages[*]}"
    read -r -p "setup: install them with sudo? [y/N] " answer
    case "$answer" in y | Y | yes) sudo apt-get update -qq && sudo "${install[@]}" ;; *) fail "run: sudo ${install[*]}" ;; esac
  else
    fail "run: sudo ${install[*]}"
  fi
fi

# npm packages. Install scripts are off: one of them fetches GPU files nobody asked for; the pinned Node's is run by hand.
lock=$(cksum <package-lock.json)
if [ "$lock" != "$(cat node_modules/.segue-lock 2>/dev/null)" ] || ! node_modules/node/bin/node -v >/dev/null 2>&1; then
  say 'installing npm packages'
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
  (cd node_modules/node && node installArchSpecificPackage.js >/dev/null)
  [ -x node_modules/node/bin/node ] || fail 'the pinned Node did not install for this platform'
  ln -sf ../node/bin/node node_modules/.bin/node # npm links no program that a package's script has yet to make
  printf '%s' "$lock" >node_modules/.segue-lock
fi
export PATH="$PWD/node_modules/.bin:$PATH"

bash native/build.sh

stamp=web-client/dist/.stamp
sources=$(find web-client src/protocol -name dist -prune -o -type f -print0 | sort -z | xargs -0 cat package-lock.json | cksum)
if [ "$sources" != "$(cat $stamp 2>/dev/null)" ]; then
  say 'building the page'
  vite build web-client --logLevel warn
  printf '%s' "$sources" >$stamp
fi
