// SPDX-License-Identifier: Apache-2.0
// What compilers that run as a child have in common: a source under the user's name, and the files that it read.
#pragma once
#include <string>
#include <vector>

#include "compile/protocol.h"

namespace klab::compile {

/// `text` as it is compiled from a copy: messages name `shown`. `instantiate`: a declaration that is appended, or empty.
std::string under_name(const std::string& text, const std::string& shown, const std::string& instantiate);

/// The files of a make rule ("out : a.cu \\\n b.h c\\ d.h") but `input`, with their hashes.
std::vector<Dependency> dependencies_of_rule(std::string_view rule, const std::string& input);

std::string replace_all(std::string text, const std::string& from, const std::string& to);

}  // namespace klab::compile
