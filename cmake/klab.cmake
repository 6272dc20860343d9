# SPDX-License-Identifier: Apache-2.0
# klab_module(NAME DEPS ...): one static library from a folder's sources, and one test program from its *_test.cpp.

add_compile_options(-Wall -Wextra -Wno-missing-field-initializers)
if(KLAB_SANITIZE)
  add_compile_options(-fsanitize=${KLAB_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${KLAB_SANITIZE})
endif()
if(KLAB_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
endif()

# Paths are made relative, so that worktrees share one cache; a precompiled header needs the two sloppiness words.
find_program(KLAB_CCACHE ccache)
if(KLAB_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${KLAB_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()
find_program(KLAB_MOLD mold)
if(KLAB_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT KLAB_SANITIZE)
  add_link_options(-fuse-ld=mold)
endif()

# Libraries in lib/ beside a program come first: what tools/portable packs runs where none of ours is installed. RPATH,
# not RUNPATH, because an LD_LIBRARY_PATH that someone set for another program must not replace them.
set(CMAKE_BUILD_RPATH "$ORIGIN/lib")
add_link_options(-Wl,--disable-new-dtags)

include_directories(${CMAKE_SOURCE_DIR}/src)

function(klab_test target)
  if(NOT KLAB_TESTS OR NOT GTest_FOUND)
    return()
  endif()
  cmake_parse_arguments(T "" "LABEL" "SOURCES;DEPS" ${ARGN})
  add_executable(${target} ${T_SOURCES})
  target_link_libraries(${target} PRIVATE ${T_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  if(TARGET klab_base)
    target_precompile_headers(${target} REUSE_FROM klab_base)
  endif()
  # Where the programs that a test starts are: klab, klab-worker, klab-compile, the layer.
  target_compile_definitions(${target} PRIVATE KLAB_BUILD_DIR="${CMAKE_BINARY_DIR}"
                             KLAB_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${target} COMMAND ${target})
  set_tests_properties(${target} PROPERTIES TIMEOUT 300)
  if(T_LABEL)
    set_tests_properties(${target} PROPERTIES LABELS ${T_LABEL})
  endif()
endfunction()

function(klab_module name)
  cmake_parse_arguments(M "" "" "DEPS;SOURCES" ${ARGN})
  if(M_SOURCES)
    set(sources ${M_SOURCES})
  else()
    file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  endif()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(_test|_main)\\.cpp$")
  if(NOT sources)
    add_library(klab_${name} INTERFACE)
    target_link_libraries(klab_${name} INTERFACE ${M_DEPS})
    return()
  endif()
  add_library(klab_${name} STATIC ${sources})
  target_link_libraries(klab_${name} PUBLIC ${M_DEPS})
  if(name STREQUAL "base")
    target_precompile_headers(klab_base PRIVATE
      <algorithm> <array> <chrono> <cstdint> <filesystem> <functional> <map> <memory> <optional> <span> <string>
      <string_view> <vector> <fmt/format.h> <nlohmann/json.hpp> <tl/expected.hpp>)
  else()
    target_precompile_headers(klab_${name} REUSE_FROM klab_base)
  endif()
  if(tests)
    klab_test(klab_${name}_test SOURCES ${tests} DEPS klab_${name})
  endif()
endfunction()
