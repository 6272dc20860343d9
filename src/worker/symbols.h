// SPDX-License-Identifier: Apache-2.0
// Module variables and constants of a variant's own code object: filled before each launch from where the
// capture keeps their state, and read back after it. Words that point into them are made to point to this
// variant's. Variables of its own are reset, so that no launch can leave something for the next. Not here: the state itself (loaded.h), what the launch is (variant.h).
#pragma once
#include <string>
#include <vector>

#include "worker/loaded.h"

namespace klab::worker {

class Symbols {
 public:
  /// Finds the capture's variables in `code`. `must_have`: the captured code, which has them all; another may
  /// have lost one to its compiler, which is a note. Errors: missing_symbol (also for another size).
  static Result<Symbols> create(Loaded& loaded, gpu::CodeId code, bool must_have);

  /// `reset`: the variant's own variables get their first values back.
  void enter(std::vector<gpu::Step>& steps, bool reset = true) const {
    if (reset) steps.insert(steps.end(), reset_.begin(), reset_.end());
    steps.insert(steps.end(), enter_.begin(), enter_.end());
  }
  /// Names of the variant's own variables; empty: it has none.
  const std::string& own() const { return own_; }
  void leave(std::vector<gpu::Step>& steps) const { steps.insert(steps.end(), leave_.begin(), leave_.end()); }
  /// Where captured addresses of variables are in this variant's code.
  const std::vector<Relocator::Moved>& moved() const { return moved_; }
  /// Words of captured memory that are rewritten around each launch.
  std::uint64_t words() const { return words_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Status make_patches(Loaded& loaded);
  Status reset_others(Loaded& loaded, gpu::CodeId code);
  std::vector<gpu::Step> reset_, enter_, leave_;
  std::string own_;
  std::vector<Relocator::Moved> moved_;
  std::vector<std::string> notes_;
  std::uint64_t words_ = 0;
  Memory list_;
  std::vector<Memory> initial_;  // values of the variant's own variables, as its code was loaded
  Launch patch_, patch_back_;
};

}  // namespace klab::worker
