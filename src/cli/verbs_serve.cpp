// SPDX-License-Identifier: Apache-2.0
// serve: the laboratory page, for a browser on this machine or at the other end of ssh.
#include <unistd.h>

#include <fmt/format.h>

#include "base/ids.h"
#include "cli/cli.h"
#include "cli/grants.h"
#include "serve/server.h"

namespace klab::cli {
namespace {

struct PageOptions {
  GrantOptions granted;
  std::string socket, url_file, page;
  int port = 0;
};

std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != 0 ? name : "HOST";
}

int do_serve(Cli& cli, const PageOptions& o) {
  auto granted = granted_of(o.granted);
  if (!granted) return cli.report(granted.error());
  if (!cli.program.empty()) {
    ops::Program program{.argv = cli.program};
    if (program.argv[0].find('/') != std::string::npos) program.argv[0] = absolute_path(program.argv[0]);
    std::error_code ec;
    program.working_folder =
        o.granted.working_folder.empty() ? fs::current_path(ec).string() : absolute_path(o.granted.working_folder);
    granted->programs[fs::path(program.argv[0]).filename().string()] = std::move(program);
  }
  hub::Client client({.alone = cli.no_hub, .front_end = "page"});
  const serve::Call call = [&client](const std::string& verb, const Json& arguments,
                                     const std::function<bool()>& cancelled) {
    return client.call(verb, arguments, {}, cancelled);
  };
  const serve::Api api(*granted, call, KLAB_VERSION);
  const serve::ServeOptions options{.port = o.port,
                                    .socket = o.socket.empty() ? "" : absolute_path(o.socket),
                                    .token = new_id(64),
                                    .page = o.page.empty() ? "" : absolute_path(o.page)};
  const auto ready = [&](int port) {
    const std::string url = fmt::format("http://127.0.0.1:{}/#t={}", port, options.token);
    if (o.url_file.empty()) {
      fmt::print("{}\n", url);
      std::fflush(stdout);
      fmt::print(stderr, "klab: the laboratory page is at this address; the part after # is its key, keep it to yourself\n");
    } else if (auto wrote = write_file_atomic(o.url_file, url + "\n"); !wrote) {
      fmt::print(stderr, "klab: {}\n", wrote.error().what);
    } else {
      fmt::print(stderr, "klab: the laboratory page's address is in {}\n", o.url_file);
    }
    fmt::print(stderr, "  from another machine: ssh -L {0}:127.0.0.1:{0} {1}   and open it there\n", port, host_name());
    if (!options.socket.empty())
      fmt::print(stderr, "  or through the socket: ssh -L {}:{} {}\n", port, options.socket.string(), host_name());
    fmt::print(stderr, "  ctrl-C ends the page; work that it started goes on\n");
    std::fflush(stderr);
  };
  if (auto served = serve::serve(api, call, options, ready, [&cli] { return cli.lab.cancelled(); }); !served)
    return cli.report(served.error());
  return 0;
}

}  // namespace

void add_serve_verb(Cli& cli) {
  auto options = std::make_shared<PageOptions>();
  auto* verb = cli.verb("serve", "the laboratory page in a browser (loopback only)",
                        "klab serve --root src -- ./matmul --size 1024");
  add_grant_options(verb, options->granted);
  verb->add_option("--port", options->port, "of 127.0.0.1 (default 0: a free one)")->check(CLI::Range(0, 65535));
  verb->add_option("--socket", options->socket, "also serve on a Unix socket at this path, for ssh -L");
  verb->add_option("--url-file", options->url_file, "write the address there (0600) in place of printing it");
  verb->add_option("--page", options->page, "serve the page's files from this folder")->group("");
  cli.run_on(verb, [&cli, options] { return do_serve(cli, *options); });
}

}  // namespace klab::cli
