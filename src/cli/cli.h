// SPDX-License-Identifier: Apache-2.0
// The command line: each verb parses its options, calls one function of ops/, prints its answer for a person
// or as JSON. Not here: any work.
#pragma once
#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

#include "hub/client.h"
#include "ops/build.h"
#include "ops/lab.h"

namespace klab::cli {

struct Cli {
  CLI::App app{
      "Klab, a GPU kernel laboratory: capture one dispatch of a running program, replay it alone, try "
      "variants of "
      "its source, and write the winner back."};
  ops::Lab lab;
  std::vector<std::string> program;  // what stood after "--"
  bool json = false, quiet = false;
  bool no_hub = false;  // do the work inside this process
  std::string colour = "auto";
  /// The chosen verb's work; set while parsing, run after it. Returns the exit code.
  std::function<int()> action;

  /// A verb with its one-line purpose and an example for --help.
  CLI::App* verb(const std::string& name, const std::string& purpose, const std::string& example,
                 CLI::App* parent = nullptr);
  void run_on(CLI::App* verb, std::function<int()> work);

  /// One verb of ops/api.h, through the hub or here; progress and ctrl-C as lab has them.
  Result<Json> call(const std::string& verb, const Json& arguments);
  hub::Client& client();
  /// hub::Client::hold, for a program that is about to run here.
  Result<std::shared_ptr<void>> hold();

  /// JSON: {"ok": true, "verb": ..., ...} on stdout.
  void print_json(const std::string& verb, Json answer) const;
  /// What, why, one thing to try on stderr; with --json also an object on stdout. Returns the exit code.
  int report(const Error& error) const;
  bool colours(int fd) const;
  /// `text` in bold, green, red or yellow when stdout shows colours.
  std::string bold(const std::string& text) const;
  std::string good(const std::string& text) const;
  std::string bad(const std::string& text) const;
  std::string warn(const std::string& text) const;

 private:
  std::unique_ptr<hub::Client> client_;
};

/// What is sent to the hub does not depend on our working folder: `path` made absolute, "" kept.
std::string absolute_path(const std::string& path);
/// A variant is a name, an id, or a file that is there.
std::string variant_reference(const std::string& text);

/// Columns padded to their widest cell; the first row is the heading. `right` marks columns of numbers.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::string& right);
std::string dimensions(const bundle::Dim3& d);

/// "32 registers, 0 B local, 4.0 KiB shared, 1.5 KiB code".
std::string figures_line(const compile::KernelFacts& kernel);

/// --grid, --block, --cluster, --dynamic-shared, --attribute, --spec, --push, --subgroup-size.
void add_launch_options(CLI::App* verb, ops::LaunchText& launch);

void add_listing_verbs(Cli& cli);  // devices, doctor, dispatches, completions
void add_capture_verbs(Cli& cli);  // capture, inspect, bundle
void add_source_verbs(Cli& cli);   // source, build, save
void add_run_verbs(Cli& cli);      // replay, compare
void add_report_verb(Cli& cli);
void add_calibrate_verb(Cli& cli);
void add_mcp_verb(Cli& cli);
void add_serve_verb(Cli& cli);
void add_hub_verb(Cli& cli);
void add_session_verbs(Cli& cli);
void add_session_run_verbs(Cli& cli, CLI::App* session);  // run, compare
void add_session_build_verb(Cli& cli, CLI::App* session);
/// The program that stood after "--". Errors: usage when nothing did.
Result<std::vector<std::string>> program_of(const Cli& cli, const std::string& verb);

}  // namespace klab::cli
