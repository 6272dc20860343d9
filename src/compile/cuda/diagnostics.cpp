// SPDX-License-Identifier: Apache-2.0
#include "compile/cuda/diagnostics.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace klab::compile {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

bool read_number(std::string_view text, std::uint32_t& out) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && !text.empty();
}

// "FILE(12)" or "FILE:12" or "FILE:12:3".
bool read_place(std::string_view where, Message& m) {
  if (!where.empty() && where.back() == ')') {
    const std::size_t open = where.rfind('(');
    if (open == std::string_view::npos ||
        !read_number(where.substr(open + 1, where.size() - open - 2), m.line))
      return false;
    m.file = where.substr(0, open);
    return !m.file.empty();
  }
  for (int part = 0; part < 2; ++part) {
    const std::size_t colon = where.rfind(':');
    std::uint32_t value = 0;
    if (colon == std::string_view::npos || !read_number(where.substr(colon + 1), value)) break;
    m.line = value;  // the last one taken is the line; the first may have been the column
    where = where.substr(0, colon);
  }
  if (m.line == 0) return false;
  m.file = where;
  return !m.file.empty();
}

struct Mark {
  std::string_view text;
  Severity severity;
};
// EDG writes "error: ", "error #20-D: " and "catastrophic error: ".
constexpr Mark kMarks[] = {{": error", Severity::error},
                           {": fatal error", Severity::error},
                           {": catastrophic error", Severity::error},
                           {": internal error", Severity::error},
                           {": warning", Severity::warning},
                           {": note", Severity::note},
                           {": remark", Severity::note}};

std::optional<Message> front_end_message(std::string_view line) {
  for (const Mark& mark : kMarks) {
    const std::size_t at = line.find(mark.text);
    if (at == std::string_view::npos) continue;
    std::string_view rest = line.substr(at + mark.text.size());
    const std::size_t colon = rest.find(": ");
    if (colon == std::string_view::npos || colon > 12) continue;
    if (colon != 0 && !rest.starts_with(" #")) continue;
    Message m;
    m.severity = mark.severity;
    if (!read_place(line.substr(0, at), m)) continue;
    m.text = rest.substr(colon + 2);
    return m;
  }
  return std::nullopt;
}

// "ptxas FILE, line 12; error   : TEXT", "ptxas fatal   : TEXT", "nvcc fatal   : TEXT"
std::optional<Message> tool_message(std::string_view line,
                                    const std::function<std::optional<SourceLine>(std::uint32_t)>& ptx_line) {
  std::string_view tool;
  for (const std::string_view name : {"ptxas ", "nvcc ", "nvlink ", "fatbinary ", "cicc "})
    if (line.starts_with(name)) tool = name;
  if (tool.empty()) return std::nullopt;
  Message m;
  std::size_t at = std::string_view::npos;
  for (const auto& [word, severity] :
       {std::pair{"error", Severity::error}, {"fatal", Severity::error}, {"warning", Severity::warning}}) {
    for (std::size_t i = line.find(word, tool.size()); i != std::string_view::npos;
         i = line.find(word, i + 1)) {
      const std::size_t colon = line.find(':', i);
      if (colon == std::string_view::npos) break;
      if (trimmed(line.substr(i, colon - i)) != word) continue;
      if (at == std::string_view::npos || i < at) {
        at = i;
        m.severity = severity;
        m.text = trimmed(line.substr(colon + 1));
      }
      break;
    }
  }
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = line.substr(tool.size(), at - tool.size());
  static constexpr std::string_view kLine = ", line ";
  if (const std::size_t comma = before.rfind(kLine); comma != std::string_view::npos) {
    const std::string_view rest = before.substr(comma + kLine.size());
    if (read_number(rest.substr(0, rest.find(';')), m.line)) {
      m.file = before.substr(0, comma);
      if (ptx_line) {
        if (const auto source = ptx_line(m.line)) {
          m.text = fmt::format("{} (from line {} of the PTX)", m.text, m.line);
          m.file = source->file, m.line = source->line;
        }
      }
    }
  } else {
    m.text = fmt::format("{}: {}", trimmed(tool), m.text);
  }
  return m;
}

}  // namespace

bool names_ptx_line(std::string_view log) {
  for (std::size_t at = log.find("ptxas "); at != std::string_view::npos; at = log.find("ptxas ", at + 6)) {
    const std::string_view line = log.substr(at, log.find('\n', at) - at);
    if (line.find(", line ") != std::string_view::npos && line.find("error") != std::string_view::npos)
      return true;
  }
  return false;
}

std::vector<Message> parse_cuda_messages(
    std::string_view log, const std::function<std::optional<SourceLine>(std::uint32_t)>& ptx_line) {
  std::vector<Message> messages;
  bool context = false;  // inside "detected during ..." of the message before
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (auto m = tool_message(line, ptx_line)) {
      messages.push_back(std::move(*m));
      context = false;
    } else if (!line.starts_with("ptxas ") && (m = front_end_message(line))) {
      messages.push_back(std::move(*m));
      context = false;
    } else if (!messages.empty()) {
      // Which instantiation an error inside a template belongs to.
      const std::string_view text = trimmed(line);
      if (text.starts_with("detected during")) context = true;
      if (text.empty()) context = false;
      if (context && line.starts_with("  ")) messages.back().text += "\n  " + std::string(text);
    }
  }
  // What ptxas says last adds nothing to what it said before.
  const bool several = std::count_if(messages.begin(), messages.end(),
                                     [](const Message& m) { return m.severity == Severity::error; }) > 1;
  if (several)
    std::erase_if(messages, [](const Message& m) {
      return m.text.find("assembly aborted due to errors") != std::string::npos;
    });
  return messages;
}

Error first_error(const std::vector<Message>& messages, const std::string& source, std::string_view log) {
  const auto is_error = [](const Message& m) { return m.severity == Severity::error; };
  const auto first = std::find_if(messages.begin(), messages.end(), is_error);
  if (first == messages.end()) {
    std::string tail(trimmed(log.substr(log.size() > 2000 ? log.size() - 2000 : 0)));
    return {ErrorCode::compile_failed, fmt::format("{} does not compile: {}", source, tail), "", 0};
  }
  const auto count = std::count_if(messages.begin(), messages.end(), is_error);
  return {ErrorCode::compile_failed,
          fmt::format("{}{}{}{}", first->file,
                      first->line != 0      ? fmt::format(":{}: ", first->line)
                      : first->file.empty() ? ""
                                            : ": ",
                      first->text, count > 1 ? fmt::format(" (and {} more)", count - 1) : ""),
          "", 0};
}

}  // namespace klab::compile
