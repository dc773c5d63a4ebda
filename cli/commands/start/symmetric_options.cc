#include "cli/commands/start/symmetric_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text/amount_text.h"

namespace mobula::internal::cli {
namespace {

constexpr double max_seconds = 30 * 86'400.0;

Failure wrong(std::string text) { return failure(ErrorCode::invalid_argument, std::move(text)); }

Result<int> whole(const std::string& flag, const std::string& text) {
  int number = -1;
  const auto end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < 0)
    return wrong(fmt::format("{}: '{}' is not a whole number from 0", flag, text));
  return number;
}

Result<Duration> seconds(const std::string& flag, const std::string& text) {
  const auto number = parse_seconds(text);
  if (!number) return wrong(fmt::format("{}: {}", flag, number.error().text));
  if (*number > max_seconds)
    return wrong(fmt::format("{}: '{}' is above the limit of 30 days", flag, text));
  return Duration(static_cast<std::int64_t>(*number * 1e9));
}

template <class To, class Value>
Result<void> put(To& to, Result<Value> value) {
  if (!value) return value.error();
  to = std::move(value).value();
  return {};
}

Result<void> take(SymmetricOptions& options, const std::string& flag, const std::string& value) {
  if (flag == "--rank") return put(options.position.rank, whole(flag, value));
  if (flag == "--size") return put(options.position.size, whole(flag, value));
  if (flag == "--local-rank") return put(options.position.local_rank, whole(flag, value));
  if (flag == "--wait") return put(options.join_timeout, seconds(flag, value));
  if (flag == "--grace") return put(options.grace, seconds(flag, value));
  (flag == "--run"         ? options.position.run
   : flag == "--head-host" ? options.head_host
                           : options.shared_dir) = value;
  return {};
}

}  // namespace

Result<SymmetricOptions> parse_symmetric(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 8> own{"--rank",      "--size",         "--local-rank",
                                                "--wait",      "--grace",        "--run",
                                                "--head-host", "--shared-folder"};
  // Flags that this command sets itself.
  constexpr std::array<std::string_view, 12> refused{
      "--head",  "--address",   "--key",      "--bind",      "--port", "--advertise",
      "--block", "--no-worker", "--insecure", "--state-dir", "--name", "--output"};
  SymmetricOptions options;
  std::size_t at = 0;
  for (; at < words.size() && words[at] != "--"; ++at) {
    const std::string& word = words[at];
    const auto equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    if (flag == "-h" || flag == "--help") {
      options.help = true;
      return options;
    }
    if (flag == "-o" || std::ranges::find(refused, flag) != refused.end()) {
      return wrong(flag + ": set by mobula symmetric itself; see 'mobula symmetric --help'");
    }
    if (std::ranges::find(own, flag) == own.end()) {
      options.node_flags.push_back(word);
      continue;
    }
    if (equals == std::string::npos && (at + 1 == words.size() || words[at + 1] == "--"))
      return wrong(flag + " needs a value");
    const std::string value = equals == std::string::npos ? words[++at] : word.substr(equals + 1);
    if (auto taken = take(options, flag, value); !taken) return taken.error();
  }
  if (at < words.size())
    options.program.assign(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
  if (options.program.empty())
    return wrong(
        "symmetric: no program given; write mobula symmetric [FLAGS] -- PROGRAM [ARGUMENTS...]");
  return options;
}

}  // namespace mobula::internal::cli
