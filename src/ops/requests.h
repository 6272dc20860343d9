// SPDX-License-Identifier: Apache-2.0
// Arguments of the verbs as JSON: closed objects whose members are those of the request structs.
#pragma once
#include "ops/build.h"
#include "ops/capture.h"
#include "ops/fields.h"
#include "ops/run.h"

namespace klab::ops {

/// The members of a struct within an object of arguments: {"iterations": 20, ...}. Used by every verb that has them, so
/// that they are spelled alike.
Fields& take_conditions(Fields& fields, replay::Conditions& conditions);
Fields& take_launch(Fields& fields, LaunchText& launch);
Fields& take_build(Fields& fields, BuildRequest& request);  // all but bundle

Json launch_arguments(const LaunchText& launch);
Json build_arguments(const BuildRequest& request);
Json condition_arguments(const replay::Conditions& conditions);

/// `verb` is who asks, for messages. Errors: usage.
Result<ReplayRequest> replay_request(const Json& arguments, std::string_view verb = "replay");
Result<CompareRequest> compare_request(const Json& arguments, std::string_view verb = "compare");
Result<BuildRequest> build_request(const Json& arguments, std::string_view verb = "build");

}  // namespace klab::ops
