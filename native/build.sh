#!/usr/bin/env bash
# Builds the codec addon to native/build/segue_media.node with the C++ compiler alone: no node-gyp, no download.
# Skipped when sources, compiler, flags and libraries are those of the last build.
set -euo pipefail
cd "$(dirname "$0")"

fail() { printf 'native: %s\n' "$*" >&2; exit 1; }

CXX=${CXX:-c++}
command -v "$CXX" >/dev/null || fail "no C++ compiler found ($CXX); Debian: apt-get install g++"
command -v pkg-config >/dev/null || fail 'pkg-config not found; Debian: apt-get install pkg-config'

modules=../node_modules
includes=()
for directory in node-addon-api node-api-headers/include; do
  [ -d "$modules/$directory" ] || fail "npm package ${directory%%/*} is not installed; run make start"
  includes+=(-isystem "$modules/$directory")
done

missing=()
pkg-config --exists vpx || missing+=(libvpx-dev)
pkg-config --exists opus || missing+=(libopus-dev)
printf '#include <libyuv.h>\n' | "$CXX" -E -x c++ - >/dev/null 2>&1 || missing+=(libyuv-dev)
[ ${#missing[@]} -eq 0 ] || fail "missing: ${missing[*]}; Debian: apt-get install ${missing[*]}"

# SWALLOW: a thread that is being terminated takes no exception any more; throwing it again would end the process.
defines=(-DNODE_API_SWALLOW_UNTHROWABLE_EXCEPTIONS -DNAPI_VERSION=8 -DNAPI_CPP_EXCEPTIONS -DNODE_ADDON_API_DISABLE_DEPRECATED -DNODE_ADDON_API_CPP_EXCEPTIONS)
read -r -a cflags <<<"$(pkg-config --cflags vpx opus)"
read -r -a libs <<<"$(pkg-config --libs vpx opus)"
flags=(-std=c++17 -O2 -g0 -fPIC -fvisibility=hidden -pthread -Wall -Wextra -Wshadow -Werror=return-type "${defines[@]}" "${cflags[@]}")

sum=$({ cat build.sh src/*; "$CXX" --version; uname -sm; printf '%s\n' "${flags[@]}" "${libs[@]}"; pkg-config --modversion vpx opus; } | cksum)
if [ -f build/segue_media.node ] && [ "$sum" = "$(cat build/stamp 2>/dev/null)" ]; then exit 0; fi

printf 'native: building the codec addon\n'
mkdir -p build/objects
rm -f build/stamp build/objects/*.o
printf '%s\0' src/*.cc | xargs -0 -P "$(nproc)" -I{} bash -c '"${@:2}" -c "$1" -o "build/objects/$(basename "$1" .cc).o"' _ {} "$CXX" "${flags[@]}" "${includes[@]}"
# Linked beside and moved into place, so that a running process never sees half a file.
"$CXX" -shared -pthread -o build/segue_media.node.new build/objects/*.o "${libs[@]}" -lyuv
mv build/segue_media.node.new build/segue_media.node
printf '%s' "$sum" >build/stamp
