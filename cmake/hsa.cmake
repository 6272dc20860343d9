# SPDX-License-Identifier: Apache-2.0
# Finds the HSA runtime's headers and hipcc; no library of ROCm is ever linked. Sets KLAB_HSA_INCLUDE (hsa/hsa.h) and
# KLAB_HIPCC.
set(klab_rocm_hints ${ROCM_PATH} $ENV{ROCM_PATH} $ENV{HIP_PATH})
find_path(KLAB_HSA_INCLUDE hsa/hsa_api_trace.h HINTS ${klab_rocm_hints} PATHS /opt/rocm PATH_SUFFIXES include)
find_program(KLAB_HIPCC hipcc HINTS ${klab_rocm_hints} PATHS /opt/rocm PATH_SUFFIXES bin)
