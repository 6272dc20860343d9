// SPDX-License-Identifier: Apache-2.0
// The tools: what an agent sees of a laboratory. Each is a schema and a few calls of ops/ verbs.
// Not here: the protocol (server.h), what the verbs do.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "hub/client.h"
#include "ops/granted.h"

namespace klab::mcp {

/// As hub::Client::call; a stub in tests.
using Call =
    std::function<Result<Json>(const std::string& verb, const Json& arguments,
                               const hub::OnProgress& progress, const std::function<bool()>& cancelled)>;

using Program = ops::Program;
using Allowed = ops::Granted;

/// What the person behind the client said to a question.
enum class Said {
  cannot_ask,  // the client has no elicitation
  accepted,
  declined,
  later  // the question is on its way (2026-07-28): the answer comes with the same call again
};

/// One tool call's way back to its caller. Thread: that of the call.
struct Asker {
  std::function<bool()> cancelled;  // the client wants the work stopped
  std::function<bool()> left;       // the client is gone: plain calls end, jobs go on
  hub::OnProgress progress;
  /// `state` is given back to the tool (`resumed`) when the call comes again with the person's answer.
  std::function<Said(const std::string& message, const std::string& state)> ask;
  std::optional<std::string> resumed;
};

struct Outcome {
  Json data = Json::object();
  bool is_error = false;
  bool asked = false;  // Said::later
};

struct Tool {
  std::string name, title, description;
  Json input, output;  // schemas
  bool reads_only = false, destructive = false, idempotent = false;
  std::function<Outcome(const Json& arguments, Asker& asker)> run;
};

/// In the order in which they are listed. `call` is used from several threads.
std::vector<Tool> make_tools(const Allowed& allowed, Call call);

/// {"code", "message", "hint", "retryable", "next_actions"}.
Json problem(const Error& error);
/// Texts over `limit` bytes are cut, and say by how much: kernel names, logs and sources come from others.
Json cut_texts(Json value, std::size_t limit = 16384);

}  // namespace klab::mcp
