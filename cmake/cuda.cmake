# SPDX-License-Identifier: Apache-2.0
# Finds CUDA's headers and nvcc; no library of it is ever linked. Sets KLAB_CUDA_INCLUDE (cuda.h) and KLAB_NVCC.
set(klab_cuda_hints ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_PATH} $ENV{CUDA_HOME})
find_program(KLAB_NVCC nvcc HINTS ${klab_cuda_hints} PATHS /usr/local/cuda PATH_SUFFIXES bin)
if(KLAB_NVCC)
  get_filename_component(klab_nvcc_real ${KLAB_NVCC} REALPATH)
  get_filename_component(klab_nvcc_root ${klab_nvcc_real}/../.. ABSOLUTE)
endif()
find_path(KLAB_CUDA_INCLUDE cuda.h HINTS ${klab_cuda_hints} ${klab_nvcc_root} PATHS /usr/local/cuda
          PATH_SUFFIXES include targets/x86_64-linux/include)
if(KLAB_CUDA_INCLUDE)
  file(STRINGS ${KLAB_CUDA_INCLUDE}/cuda.h klab_cuda_version REGEX "^#define CUDA_VERSION ")
  string(REGEX MATCH "[0-9]+" klab_cuda_version "${klab_cuda_version}")
  if(klab_cuda_version LESS 12040)
    message(STATUS "klab: CUDA ${klab_cuda_version} is too old, 12040 (12.4) is needed")
    unset(KLAB_CUDA_INCLUDE)
    unset(KLAB_CUDA_INCLUDE CACHE)
  endif()
endif()
