// SPDX-License-Identifier: Apache-2.0
// How outcomes are to be compared, as people say it, turned into what the worker is told; and what the elements of
// each region are, found out from the captured code. Not here: comparing (validate/, worker/).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "ops/build.h"
#include "ops/fields.h"

namespace klab::ops {

/// Kernel (part of its name) -> region -> type, as klab.toml has them.
using TypeDefaults = std::map<std::string, std::map<std::string, std::string>>;

struct CheckText {
  std::string level;                    // "": what the rest implies, else bitwise
  std::vector<std::string> types;       // "REGION=f16:4096x4096"
  std::vector<std::string> tolerances;  // "abs=1e-5,rel=1e-4", or for one region "REGION:abs=..."
  std::vector<std::string> checker;     // a program and its arguments
  double checker_limit_s = 60;
  std::vector<std::string> references;  // "REGION=FILE": float64 values
  std::vector<LaunchText> unseen;       // launch sizes that the variant must be right for as well
  bool other_captures = true;
  std::uint32_t seed = 1;
  TypeDefaults type_defaults;
};

Fields& take_checks(Fields& fields, CheckText& checks);
Json check_arguments(const CheckText& checks);
/// "grid=3,1,1 push=0=e8030000": members of LaunchText, in one word each. Errors: usage.
Result<LaunchText> parse_launch_words(const std::string& text);

/// REGION is a number, a region's name, or a name of the shader that a binding has. Errors: usage, naming what there is.
Result<replay::Checks> resolve_checks(Lab& lab, const OpenBundle& bundle, std::uint32_t dispatch, const CheckText& text);

/// Types of one dispatch's regions: given ones first, then those of klab.toml, then inferred from SPIR-V or from the
/// kernel's argument types. Errors: usage.
Result<std::vector<validate::TypedRange>> element_types(Lab& lab, const OpenBundle& bundle, std::uint32_t dispatch,
                                                        const CheckText& text);

/// From a demangled CUDA or HIP kernel name, "void saxpy<float>(int, float const*, float*)": element type of each
/// parameter that is a pointer; empty records for the others. Pure.
struct PointedType {
  std::vector<validate::Field> fields;
  std::uint32_t stride = 0;  // 0: no pointer, or to something that is not known
};
std::vector<PointedType> pointed_types(std::string_view kernel);

}  // namespace klab::ops
