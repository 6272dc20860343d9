// SPDX-License-Identifier: Apache-2.0
// What a target is started with: the shims in its environment, and a private socket to find us by.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/subprocess.h"
#include "capture/capture.h"

namespace klab::capture {

/// The shims beside this program, or in ../lib/klab. Empty: not there.
struct Shims {
  fs::path layer_folder;  // of VkLayer_klab_capture.json and its library
  fs::path cuda;          // libklab_cuda.so
  fs::path hsa;           // libklab_hsa.so
};
/// Errors: environment when there is none at all, naming where it was looked for.
Result<Shims> find_shims();

/// The variables that put our layer below the layers that the user already has. `get` answers what the target
/// would see without us.
std::map<std::string, std::optional<std::string>> layer_environment(
    const fs::path& folder, const std::function<std::optional<std::string>(const std::string&)>& get);

/// The variable that makes the CUDA driver load our shim. Who has it set already keeps his own: the driver loads one
/// library, and `warnings` then says so.
std::map<std::string, std::optional<std::string>> cuda_environment(
    const fs::path& shim, const std::function<std::optional<std::string>(const std::string&)>& get,
    std::vector<std::string>& warnings);

/// The variables that make the HSA runtime load our shim after the tools that the user already has, by the way that
/// every version of it still knows.
std::map<std::string, std::optional<std::string>> hsa_environment(
    const fs::path& shim, const std::function<std::optional<std::string>(const std::string&)>& get);

/// A listening SOCK_SEQPACKET socket in a folder of its own (0700), removed on destruction. Folders of a klab
/// that died are swept when one is made.
class Rendezvous {
 public:
  /// Errors: io_failed.
  static Result<Rendezvous> create();
  Rendezvous(Rendezvous&&) noexcept = default;
  Rendezvous& operator=(Rendezvous&&) noexcept;
  ~Rendezvous();
  int fd() const { return listening_.get(); }
  const fs::path& path() const { return socket_; }

 private:
  Rendezvous() = default;
  fs::path folder_, socket_;
  Fd listening_;
};

/// Starts the target with the shims and `socket`. Errors: target_failed, environment.
Result<Child> start_target(const Target& target, const Shims& shims, const fs::path& socket,
                           std::vector<std::string>& warnings);

}  // namespace klab::capture
