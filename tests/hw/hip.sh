#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that an AMD GPU is needed for: tests/hw/hip.sh [--out DIR]. Builds for the GPUs of this machine, runs the HIP tests on them, calibrates, compares a
# kernel with itself, and leaves one archive to send back (docs/amd.md says what it fills in). Without /dev/kfd all of it but times runs on the simulated GPU.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
out=$PWD/build/hip-results
while [ $# -gt 0 ]; do
  case "$1" in
    --out) out=$(mkdir -p "$2" && cd "$2" && pwd); shift 2 ;;
    --help) sed -n '3,5s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "usage: tests/hw/hip.sh [--out DIR]" >&2; exit 2 ;;
  esac
done
mkdir -p "$out"
rows=()
group() {  # NAME COMMAND...: its output in NAME.log, one row of the table
  local name=$1 started=$SECONDS rc=0
  shift
  "$@" >"$out/$name.log" 2>&1 || rc=$?
  local last
  last=$(grep -v '^[[:space:]]*$' "$out/$name.log" | tail -1 | cut -c1-100)
  rows+=("$(printf '| %-12s | %-6s | %5d s | %s |' "$name" "$([ $rc = 0 ] && echo ok || echo "rc $rc")" $((SECONDS - started)) "$last")")
  [ $rc = 0 ]
}
failed=0
if [ -e /dev/kfd ]; then
  archs=$(rocm_agent_enumerator 2>/dev/null | grep -v gfx000 | sort -u | paste -sd ';')
  where="AMD GPU: ${archs:-unknown}"
else
  archs=gfx1030 where="the simulated GPU: no time of this means anything"
  tools/setup hip || exit 6
fi
echo "hip.sh: $where"
group build bash -c "cmake --preset dev -DKLAB_HIP_ARCHITECTURES='${archs:-gfx1030}' && cmake --build build" || { tail -20 "$out/build.log"; exit 7; }
[ -e /dev/kfd ] || export LD_LIBRARY_PATH=$PWD/build/sim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export KLAB_HOME=$out/home PATH=$PWD/build:$PATH
group versions bash -c 'uname -r; cat /sys/module/amdgpu/version /opt/rocm/.info/version 2>/dev/null; hipcc --version; rocminfo 2>/dev/null | head -200' || true
group doctor build/klab --no-hub doctor --json || true  # other parts of it may be missing here
group devices build/klab --no-hub devices --json || failed=1
group backend build/klab_hip_test || failed=1
group end_to_end env KLAB_BUILD_DIR="$PWD/build" python3 -m pytest -q -p no:cacheprovider tests/test_hip.py tests/test_hip_variants.py || failed=1
if [ -e /dev/kfd ]; then
  group calibrate build/klab --no-hub calibrate --api hip --json || failed=1
  group capture build/klab --no-hub capture --kernel scale_in_place -o "$out/inplace.klab" --json -- build/examples/hip/inplace --size 4194304 || failed=1
  group same build/bench_claims "$out/inplace.klab" --tries 20 --budget 2 --seed 1 --floors "$out/floors.json" --same || failed=1
  group addresses env HSA_RESERVE_SVM=1 build/klab_hip_test || failed=1
fi
{
  echo "| group | result | time | last line |"
  echo "|---|---|---|---|"
  printf '%s\n' "${rows[@]}"
} | tee "$out/table.md"
rm -rf "$out/home"
tar -C "$(dirname "$out")" -czf "$out.tar.gz" "$(basename "$out")" && echo "to send back: $out.tar.gz"
exit $failed
