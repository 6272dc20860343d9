// SPDX-License-Identifier: Apache-2.0
// Which kernel of a variant's code object is meant, when its mangled name is not the captured one. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace klab::worker {

/// "scale" of "_Z5scaleIfEvPT_i" and of "void (anonymous namespace)::k::scale<float>(float*, int)"; a name
/// that is not mangled is its own.
std::string base_name(const std::string& mangled);

struct EntryPoint {
  std::string name;
  std::string note;  // why it is not the wanted one; empty: it is
};
/// `wanted` when `there` has it, else the only one with its base name. Errors: missing_symbol, naming those
/// there are.
Result<EntryPoint> choose_entry_point(const std::string& wanted, const std::vector<std::string>& there);

}  // namespace klab::worker
