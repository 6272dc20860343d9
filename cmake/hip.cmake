# SPDX-License-Identifier: Apache-2.0
# Finds AMD's HSA headers, a clang that builds device code (no ROCm library is needed for Klab's own kernels), and hipcc.
# No library of ROCm is ever linked. Sets KLAB_HSA_INCLUDE, KLAB_HIP_CLANG, KLAB_HIP_ARCHS and KLAB_HIPCC, which are empty
# or NOTFOUND where there is none, and klab_hip_code().
set(klab_rocm_hints ${ROCM_PATH} $ENV{ROCM_PATH} /opt/rocm)
find_path(KLAB_HSA_INCLUDE hsa/hsa_ext_amd.h HINTS ${klab_rocm_hints} PATH_SUFFIXES include)
find_program(KLAB_HIPCC hipcc HINTS ${klab_rocm_hints} PATH_SUFFIXES bin)

set(klab_hip_flags -x hip --cuda-device-only --no-gpu-bundle-output -nogpulib -nogpuinc -std=c++17 -O3
                   -mcode-object-version=4)
set(KLAB_HIP_WANTED gfx900 gfx906 gfx908 gfx90a gfx942 gfx1010 gfx1030 gfx1031 gfx1032 gfx1100 gfx1101 gfx1102 gfx1150
                    gfx1151 gfx1200 gfx1201 CACHE STRING "AMD processors that Klab's own kernels are built for")

function(klab_find_hip_clang)
  set(source ${CMAKE_BINARY_DIR}/klab_hip_probe.cu)
  file(WRITE ${source} "extern \"C\" __attribute__((global)) void probe(int* p) { *p = 1; }\n")
  foreach(name clang++-15 clang++-19 clang++-18 clang++-17 clang++ amdclang++)
    find_program(klab_candidate ${name} HINTS ${klab_rocm_hints} PATH_SUFFIXES llvm/bin bin NO_CACHE)
    if(NOT klab_candidate)
      continue()
    endif()
    set(archs)
    foreach(arch IN LISTS KLAB_HIP_WANTED)
      execute_process(COMMAND ${klab_candidate} ${klab_hip_flags} --offload-arch=${arch} ${source}
                              -o ${CMAKE_BINARY_DIR}/klab_hip_probe.hsaco
                      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
      if(NOT failed)
        list(APPEND archs ${arch})
      endif()
    endforeach()
    list(LENGTH archs count)
    list(LENGTH KLAB_HIP_ARCHS best)
    if(count GREATER best)
      set(KLAB_HIP_CLANG ${klab_candidate})
      set(KLAB_HIP_ARCHS ${archs})
    endif()
    unset(klab_candidate)
  endforeach()
  set(KLAB_HIP_CLANG "${KLAB_HIP_CLANG}" CACHE FILEPATH "clang that builds Klab's kernels for AMD GPUs")
  set(KLAB_HIP_ARCHS "${KLAB_HIP_ARCHS}" CACHE STRING "those that it can build for")
endfunction()
if(KLAB_HSA_INCLUDE AND NOT KLAB_HIP_CLANG)
  klab_find_hip_clang()
endif()

# klab_hip_code(OUTPUTS SOURCE ARCHS DEPENDS...): one code object for each processor, NAME_gfx1030.hsaco.
function(klab_hip_code outputs source archs)
  get_filename_component(name ${source} NAME_WE)
  set(files)
  foreach(arch IN LISTS archs)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_${arch}.hsaco)
    add_custom_command(OUTPUT ${file}
                       COMMAND ${KLAB_HIP_CLANG} ${klab_hip_flags} --offload-arch=${arch}
                               ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${file}
                       DEPENDS ${source} ${ARGN} VERBATIM)
    list(APPEND files ${file})
  endforeach()
  set(${outputs} ${files} PARENT_SCOPE)
endfunction()

if(NOT KLAB_HSA_INCLUDE OR NOT KLAB_HIP_CLANG OR NOT KLAB_HIPCC)
  message(STATUS "klab: HIP is left out, or a part of it: HSA headers, hipcc or a clang for AMD GPUs is missing (tools/setup hip)")
endif()
