// SPDX-License-Identifier: Apache-2.0
// Arguments of a verb as JSON into C++: each member taken by name, what is left over refused by name.
#pragma once
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"

namespace klab::ops {

/// Foreign bytes: a member of a wrong type, one too many or one too few is an error, never an exception.
class Fields {
 public:
  Fields(const Json& arguments, std::string_view verb) : arguments_(arguments), verb_(verb) {
    if (!arguments.is_object()) error_ = "the arguments are not an object";
  }
  template <class T>
  Fields& take(const char* name, T& out) {
    known_.insert(name);
    if (!error_.empty() || !arguments_.is_object()) return *this;
    try {
      read_optional(arguments_, name, out);
    } catch (const std::exception& e) {
      error_ = std::string(name) + ": " + e.what();
    }
    return *this;
  }
  template <class T>
  Fields& take(const char* name, std::optional<T>& out) {
    T value{};
    const bool given = arguments_.is_object() && arguments_.contains(name) && !arguments_[name].is_null();
    take(name, value);
    if (given && error_.empty()) out = std::move(value);
    return *this;
  }
  template <class T>
  Fields& need(const char* name, T& out) {
    if (error_.empty() && !arguments_.contains(name)) error_ = std::string(name) + " is missing";
    return take(name, out);
  }
  void refuse(const std::string& why) {
    if (error_.empty()) error_ = why;
  }
  /// Errors: usage, naming the verb, the member, and the members that there are.
  Status done() const;

 private:
  const Json& arguments_;
  std::string_view verb_;
  std::set<std::string, std::less<>> known_;
  std::string error_;
};

}  // namespace klab::ops
