#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a CUDA device: tests/hw/cuda.sh [--build DIR] [--only GROUP,...] [--budget SECONDS] [--out DIR]
# (--help says the rest). Needs only python3's standard library; what else is missing is skipped by name.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v python3 >/dev/null || { echo "cuda.sh: needs python3" >&2; exit 6; }
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$here/cuda.py" "$@"
