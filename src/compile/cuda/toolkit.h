// SPDX-License-Identifier: Apache-2.0
// Where the CUDA toolkit's programs, libraries and headers are on this machine. Looks at files only; loads
// nothing. Not here: using them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"

namespace klab::compile {

struct FoundFile {
  fs::path path;
  std::string
      how;  // "KLAB_NVRTC", "CUDA_HOME", "PATH", "/usr/local/cuda", "ld.so", "Python package nvidia.cu13"
  explicit operator bool() const { return !path.empty(); }
};

/// "nvcc", "ptxas", "nvdisasm", "cuobjdump". $KLAB_NVCC and the like name a program and end the search: when
/// it is not there, nothing is found. Then $CUDA_HOME, $CUDA_PATH, PATH, the usual folders, Python packages
/// (NVIDIA's, Triton's).
FoundFile find_cuda_program(const std::string& name);

/// "nvrtc", "nvJitLink": $KLAB_NVRTC, $KLAB_NVJITLINK, then as for programs, and what the loader knows.
FoundFile find_cuda_library(const std::string& name);

/// Folders with the toolkit's headers that belong to `beside` (a library or program of the toolkit), CCCL's
/// among them.
std::vector<std::string> cuda_include_folders(const fs::path& beside);

/// Path, size and time of a file in one line: changes when the file does. Empty path: "-".
std::string file_identity(const fs::path& path);
/// Of every tool that a CUDA build may use, and of the headers.
std::string toolkit_identity();

}  // namespace klab::compile
