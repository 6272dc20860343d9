// SPDX-License-Identifier: Apache-2.0
// A list of dispatches, from a traced run or (later) a profiler's file. Read-only: listing starts nothing.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "bundle/manifest.h"

namespace klab::import {

/// A pipeline or function, each listed once.
struct Kernel {
  std::string name;         // unique in the list: debug name, else source file stem, else "main@1a2b3c4d"
  std::string entry_point;
  std::string hash;         // of code, entry point, specialization and layout: 16 hexadecimal digits
  std::string code_hash;    // of the code object
  bundle::Dim3 block{0, 0, 0};  // 0: not known, or not the same at every launch
  std::string refusal;      // why its dispatches cannot be captured yet, or empty
};

struct Row {
  std::uint32_t kernel = 0;     // position in DispatchList::kernels
  std::uint64_t sequence = 0;   // n-th dispatch of the program, from 1, in order of execution
  std::uint64_t nth = 0;        // n-th of this kernel, from 1
  bundle::Dim3 grid{0, 0, 0};
  std::string call;             // "vkCmdDispatch", "cuLaunchKernel"
  std::uint32_t queue = 0;      // position of the queue, from 0; CUDA: the stream's number
  double begin_ns = 0, gpu_ns = 0;  // device timestamps; gpu_ns 0: not known
  bundle::Dim3 block{0, 0, 0};      // CUDA: of this launch; 0: the kernel's
  std::uint32_t dynamic_shared_bytes = 0;
};

struct DispatchList {
  std::string source;           // "traced run of ./saxpy", or a file
  bundle::DeviceIdentity device;
  bundle::Program program;
  int exit_code = 0;
  std::vector<Kernel> kernels;
  std::vector<Row> rows;
  std::vector<std::string> warnings;
};

/// Totals per kernel, largest total time first.
struct Summary {
  std::uint32_t kernel = 0;
  std::uint64_t calls = 0;
  double total_ns = 0, median_ns = 0, min_ns = 0, max_ns = 0, share = 0;
};
std::vector<Summary> summarise(const DispatchList& list);

/// JSON lines: one header object, then one object a kernel, then one array a row. Streams of a million rows are read
/// without a second copy. Errors: not_found, invalid_data naming the line.
Status write_list(const fs::path& file, const DispatchList& list);
Result<DispatchList> read_list(const fs::path& file);

/// Names in `list` that come closest to `pattern`, best first, at most `limit`.
std::vector<std::string> nearest_names(const std::vector<std::string>& names, std::string_view pattern, std::size_t limit = 5);

}  // namespace klab::import
