// SPDX-License-Identifier: Apache-2.0
#include "mcp/http.h"

#include <httplib.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "base/ids.h"

namespace klab::mcp {
namespace {

constexpr const char* kPath = "/mcp";

/// A value that is no plain ASCII travels as =?base64?...?= (SEP-2243).
std::string header_text(const std::string& value) {
  constexpr std::string_view kBegin = "=?base64?", kEnd = "?=";
  if (value.size() < kBegin.size() + kEnd.size() || value.rfind(kBegin, 0) != 0 || !value.ends_with(kEnd))
    return value;
  const std::string_view coded =
      std::string_view(value).substr(kBegin.size(), value.size() - kBegin.size() - kEnd.size());
  std::string text;
  unsigned bits = 0, held = 0;
  for (const char c : coded) {
    static constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const auto digit = kDigits.find(c);
    if (digit == std::string_view::npos) break;
    bits = bits << 6 | static_cast<unsigned>(digit), held += 6;
    if (held >= 8) held -= 8, text += static_cast<char>(bits >> held & 0xff);
  }
  return text;
}

class Http {
 public:
  Http(Server& server, const HttpOptions& options) : server_(server), options_(options) {}

  void allow(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }

  void install(httplib::Server& http) {
    http.new_task_queue = [] { return new httplib::ThreadPool(64); };
    http.set_payload_max_length(kMaxMessage);
    http.set_keep_alive_max_count(10000);
    http.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      return admitted(request, response) ? httplib::Server::HandlerResponse::Unhandled
                                         : httplib::Server::HandlerResponse::Handled;
    });
    http.Post(kPath, [this](const httplib::Request& request, httplib::Response& response) {
      post(request, response);
    });
    http.Delete(kPath, [this](const httplib::Request& request, httplib::Response& response) {
      end(request, response);
    });
    http.Get(kPath, [](const httplib::Request&, httplib::Response& response) {
      response.status = 405;  // there is no stream besides that of each request
      response.set_header("Allow", "POST, DELETE");
    });
  }

  void close() {
    std::lock_guard lock(mutex_);
    for (auto& [id, connection] : sessions_) connection->close();
    stateless_.close();
  }

 private:
  static void refuse(httplib::Response& response, int status, const std::string& why) {
    response.status = status;
    response.set_content(write_message(rpc_error(nullptr, kInvalidRequest, why)), "application/json");
  }

  // A page of some site in the user's browser can send requests here, but it cannot know the token, and its
  // Host or Origin give it away (DNS rebinding).
  bool admitted(const httplib::Request& request, httplib::Response& response) {
    if (options_.socket.empty()) {
      if (std::find(hosts_.begin(), hosts_.end(), request.get_header_value("Host")) == hosts_.end())
        return refuse(response, 403, "Host is not this server"), false;
      if (request.has_header("Origin")) {
        const std::string origin = request.get_header_value("Origin");
        const bool ours = std::any_of(hosts_.begin(), hosts_.end(),
                                      [&](const std::string& host) { return origin == "http://" + host; });
        if (!ours) return refuse(response, 403, "Origin is not this server"), false;
      }
    }
    const std::string given = request.get_header_value("Authorization");
    constexpr std::string_view kBearer = "Bearer ";
    if (given.rfind(kBearer, 0) != 0 ||
        !same_token(std::string_view(given).substr(kBearer.size()), options_.token)) {
      response.set_header("WWW-Authenticate", "Bearer");
      return refuse(response, 401, "no token, or a wrong one: the server printed it when it started"), false;
    }
    return true;
  }

  std::shared_ptr<Connection> session_of(const httplib::Request& request, httplib::Response& response) {
    const std::string id = request.get_header_value("Mcp-Session-Id");
    if (id.empty())
      return refuse(response, 400, "Mcp-Session-Id is missing: initialize comes first"), nullptr;
    std::lock_guard lock(mutex_);
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) return refuse(response, 404, "no such session: initialize again"), nullptr;
    return found->second;
  }

  void end(const httplib::Request& request, httplib::Response& response) {
    const auto connection = session_of(request, response);
    if (!connection) return;
    connection->close();
    std::lock_guard lock(mutex_);
    sessions_.erase(request.get_header_value("Mcp-Session-Id"));
    response.status = 204;
  }

  void post(const httplib::Request& request, httplib::Response& response) {
    RpcMessage message = read_message(request.body);
    if (auto* bad = std::get_if<RpcBad>(&message)) {
      response.status = 400;
      response.set_content(write_message(bad->answer), "application/json");
      return;
    }
    auto* rpc = std::get_if<RpcRequest>(&message);
    const Json* params = rpc != nullptr ? &rpc->params : nullptr;
    if (auto* n = std::get_if<RpcNotification>(&message)) params = &n->params;
    const std::string header = request.get_header_value("MCP-Protocol-Version");
    const bool modern = header == kModern ||
                        (params != nullptr && params->contains("_meta") && (*params)["_meta"].is_object() &&
                         (*params)["_meta"].contains("io.modelcontextprotocol/protocolVersion"));
    if (modern && rpc != nullptr && !headers_agree(request, response, *rpc, header)) return;
    std::shared_ptr<Connection> connection(&stateless_, [](Connection*) {});
    const bool begins = !modern && rpc != nullptr && rpc->method == "initialize";
    if (begins) {
      connection = std::make_shared<Connection>(server_);
      const std::string id = new_id(32);
      std::lock_guard lock(mutex_);
      if (sessions_.size() >= options_.most_sessions) {
        sessions_.begin()->second->close();
        sessions_.erase(sessions_.begin());
      }
      sessions_[id] = connection;
      response.set_header("Mcp-Session-Id", id);
    } else if (!modern) {
      connection = session_of(request, response);
      if (!connection) return;
    }
    if (auto* notification = std::get_if<RpcNotification>(&message)) {
      connection->notice(*notification);
      response.status = 202;
    } else if (auto* answer = std::get_if<RpcResponse>(&message)) {
      connection->take(*answer);
      response.status = 202;
    } else if (rpc->method == "tools/call" &&
               request.get_header_value("Accept").find("text/event-stream") != std::string::npos) {
      stream(response, connection, std::move(*rpc), modern);
    } else {
      const Json answer = connection->answer(
          *rpc, [](const Json&) { return false; }, [] { return false; });
      if (answer.contains("error") && modern) {
        const int code = answer["error"]["code"];
        response.status = code == kMethodNotFound ? 404 : 400;
      }
      response.set_content(write_message(answer), "application/json");
    }
  }

  bool headers_agree(const httplib::Request& request, httplib::Response& response, const RpcRequest& rpc,
                     const std::string& version) {
    const Json meta = rpc.params.value("_meta", Json::object());
    const auto said = meta.is_object() ? meta.find("io.modelcontextprotocol/protocolVersion") : meta.end();
    std::string wrong;
    if (!meta.is_object() || said == meta.end() || !said->is_string())
      return true;  // the dispatcher says what is missing
    if (*said != version) wrong = "MCP-Protocol-Version";
    if (request.get_header_value("Mcp-Method") != rpc.method) wrong = "Mcp-Method";
    const char* mirrored = rpc.method == "resources/read" ? "uri" : "name";
    if (rpc.method == "tools/call" || rpc.method == "prompts/get" || rpc.method == "resources/read")
      if (const Json name = rpc.params.value(mirrored, Json());
          name.is_string() && header_text(request.get_header_value("Mcp-Name")) != name)
        wrong = "Mcp-Name";
    if (wrong.empty()) return true;
    response.status = 400;
    response.set_content(
        write_message(rpc_error(rpc.id, kHeaderMismatch, wrong + " is missing, or differs from the message")),
        "application/json");
    return false;
  }

  // Server-sent events: progress and questions as they come, then the answer. A stream that the client closes
  // takes its request back.
  static void stream(httplib::Response& response, std::shared_ptr<Connection> connection, RpcRequest rpc,
                     bool) {
    response.set_header("Cache-Control", "no-store");
    response.set_chunked_content_provider(
        "text/event-stream",
        [connection = std::move(connection), rpc = std::move(rpc)](std::size_t, httplib::DataSink& sink) {
          const auto writing = std::make_shared<std::mutex>();
          const Send send = [&sink, writing](const Json& message) {
            const std::string event = "event: message\ndata: " + write_message(message) + "\n\n";
            std::lock_guard lock(*writing);
            return sink.is_writable() && sink.write(event.data(), event.size());
          };
          const auto closed = [&sink, writing] {
            std::lock_guard lock(*writing);
            return !sink.is_writable();
          };
          if (const Json answer = connection->answer(rpc, send, closed); !answer.is_null()) send(answer);
          std::lock_guard lock(*writing);
          sink.done();
          return true;
        });
  }

  Server& server_;
  const HttpOptions& options_;
  std::vector<std::string> hosts_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Connection>> sessions_;
  Connection stateless_{server_};
};

Status prepare_socket(const fs::path& path) {
  if (path.string().size() >= sizeof(sockaddr_un::sun_path))
    return fail(ErrorCode::usage, fmt::format("{} is too long for a socket's path", path.string()),
                "a shorter path");
  struct stat st {};
  if (::lstat(path.c_str(), &st) == 0) {
    if (!S_ISSOCK(st.st_mode))
      return fail(ErrorCode::usage, path.string() + " is there and no socket", "another path");
    ::unlink(path.c_str());
  }
  return {};
}

}  // namespace

Status serve_http(Server& server, const HttpOptions& options,
                  const std::function<void(const std::string&)>& ready, const std::function<bool()>& stop) {
  Http handler(server, options);
  httplib::Server http;
  handler.install(http);
  if (!options.socket.empty()) {
    KLAB_TRY_VOID(prepare_socket(options.socket));
    http.set_address_family(AF_UNIX);
    const mode_t before = ::umask(0177);
    const bool bound = http.bind_to_port(options.socket.string(), 80);
    ::umask(before);
    if (!bound)
      return fail(ErrorCode::io_failed, "cannot listen at " + options.socket.string(),
                  "is its folder there, and yours?");
    ready("unix:" + options.socket.string());
  } else {
    int port = options.port;
    const bool bound =
        port == 0 ? (port = http.bind_to_any_port("127.0.0.1")) > 0 : http.bind_to_port("127.0.0.1", port);
    if (!bound)
      return fail(ErrorCode::io_failed, fmt::format("cannot listen on port {} of 127.0.0.1", options.port),
                  "another port, or 0 for a free one");
    handler.allow({fmt::format("127.0.0.1:{}", port), fmt::format("localhost:{}", port)});
    ready(fmt::format("http://127.0.0.1:{}{}", port, kPath));
  }
  std::atomic<bool> over{false};
  std::thread watcher([&] {
    while (!over && !stop()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    handler.close();
    http.stop();
  });
  http.listen_after_bind();
  over = true;
  watcher.join();
  if (!options.socket.empty()) ::unlink(options.socket.c_str());
  return {};
}

}  // namespace klab::mcp
