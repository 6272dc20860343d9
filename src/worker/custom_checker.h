// SPDX-License-Identifier: Apache-2.0
// Asking a user's program whether an outcome is right. Protocol: docs/validation.md, "Custom checkers".
// Not here: what its opinion means (judge_variant.h), confining it (confine.h).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "validate/element.h"
#include "worker/restore.h"

namespace klab::worker {

/// A program and the state that it is asked about. Files in memory that nobody can change any more.
class CustomChecker {
 public:
  struct Opinion {
    bool accepts = false;
    std::string reason;  // the checker's own words, cut at 1 KiB
  };
  /// `chunks`, `expected`: what the baseline leaves on the input that lies in `pre` (of every chunk of these regions).
  /// Errors: cap_reached (regions too large to hand over), environment, io_failed.
  static Result<CustomChecker> create(Loaded& loaded, std::vector<std::string> command, double limit_s,
                                      const validate::Layout& layout, const ChunkList& chunks, const Image& expected,
                                      std::string input,
                                      const std::map<ChunkId, validate::ByteBuffer>& other_inputs = {});

  /// `actual`: over the chunks. Errors: what keeps the program from having an opinion: timeout, it failed, it
  /// answered no verdict. A checker that fails accepts nothing.
  Result<Opinion> ask(Loaded& loaded, const Image& actual) const;

 private:
  struct Region {
    std::uint32_t id = 0;
    bool written = false;
    Fd input, expected;
  };
  std::vector<std::string> command_;
  double limit_s_ = 60;
  ChunkList chunks_;
  Image expected_;
  std::vector<Region> regions_;
  Json description_;
};

}  // namespace klab::worker
