// SPDX-License-Identifier: Apache-2.0
// A variant ready to launch over a loaded capture: code object, launch overrides, resources.
// Not here: running and judging it.
#pragma once
#include <string>

#include "replay/protocol.h"
#include "worker/symbols.h"

namespace klab::worker {

struct Variant {
  std::string label;
  bool is_baseline = false;  // captured code and captured launch
  std::string code_hash;
  Json resources = Json::object();
  std::vector<std::string> notes;     // what differs from the captured launch without being asked for
  std::uint64_t rewritten_words = 0;  // pointers into module variables, in arguments and captured memory
  Code code;
  Symbols symbols;
  Launch launch;
  bool images = false;  // arrays of textures or surfaces

  /// What the launch needs besides captured memory, and what it leaves there: around each launch, or around
  /// several back to back.
  /// `reset`: Symbols::enter.
  void enter(std::vector<gpu::Step>& steps, bool reset = true) const;
  void leave(std::vector<gpu::Step>& steps) const;
  /// One launch with both.
  void append(std::vector<gpu::Step>& steps, bool reset = true) const;
  std::vector<gpu::Step> steps() const;
};

/// Reads the code object, applies the overrides and prepares the launch. Bindings and pointers in push
/// constants and arguments refer to where the regions lie now: void after Loaded::place_again. Errors:
/// not_found (code file), missing_symbol, compile_failed, launch_failed, usage (an override that cannot be).
/// `widen`: LaunchSpec::widen.
Result<Variant> make_variant(Loaded& loaded, const replay::VariantCode& code, bool widen = false);

/// The typed outcome of a request or variant that ended with `error`.
replay::Outcome outcome_of(const Error& error);

}  // namespace klab::worker
