#include "cli/repl/watch.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "base/mutex.h"
#include "base/text/json_writer.h"
#include "base/time.h"
#include "cli/tool_client.h"

namespace mobula::internal::cli::repl {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration interval = 1s;
constexpr Duration timeout = 2s;
constexpr std::size_t most_news = 200;
constexpr std::size_t short_id = 8;
constexpr Duration first_probe_timeout = 500ms;
constexpr const char* no_cluster = "(no cluster) > ";
constexpr const char* not_polled_yet = "(connecting) > ";

SeenThings things_of(const Json& list, const char* id, const char* name) {
  SeenThings things;
  for (const auto& item : list.value("items", Json::array())) {
    things[item.value(id, std::string())] = {item.value(name, std::string()),
                                             item.value("state", std::string())};
  }
  return things;
}

std::string amount(double number) { return fmt::format("{:g}", number); }

}  // namespace

std::vector<std::string> changes_between(const std::string& what, const SeenThings& before,
                                         const SeenThings& after) {
  std::vector<std::string> lines;
  const auto line = [&](const std::string& id, const Seen& seen, const std::string& state) {
    lines.push_back(fmt::format("{} {}{} is {}", what, id.substr(0, short_id),
                                seen.name.empty() ? "" : " (" + seen.name + ")", state));
  };
  for (const auto& [id, seen] : after) {
    const auto was = before.find(id);
    if (was == before.end() || was->second.state != seen.state) line(id, seen, seen.state);
  }
  for (const auto& [id, seen] : before) {
    if (!after.contains(id)) line(id, seen, "gone");
  }
  return lines;
}

std::string prompt_of(const Json& status) {
  std::int64_t nodes = 0;
  const Json counts = status.value("nodes", Json::object());
  for (const auto& [state, count] : counts.items())
    nodes += state == "DEAD" ? 0 : count.get<std::int64_t>();
  std::string text = fmt::format("({} {}n", status.value("cluster_name", std::string("?")), nodes);
  const Json resources = status.value("resources", Json::object());
  for (const char* name : {"GPU", "CPU"}) {
    const auto use = resources.find(name);
    if (use == resources.end()) continue;
    const double total = use->value("total", 0.0);
    text += fmt::format(" {}/{} {}", amount(total - use->value("available", total)), amount(total),
                        name);
    break;
  }
  return text + ") > ";
}

Result<std::unique_ptr<ClusterWatch>> ClusterWatch::start(const CommandLine& line) {
  Fd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return errno_failure("create an event descriptor", errno);
  std::unique_ptr<ClusterWatch> watch(new ClusterWatch(line, std::move(fd)));
  watch->thread_ = std::thread([raw = watch.get()] { raw->run(); });
  // The first prompt shows the state of the cluster if it is known soon.
  {
    const auto until = std::chrono::steady_clock::now() + first_probe_timeout;
    MutexLock held(watch->mutex_);
    while (watch->prompt_ == not_polled_yet && watch->changed_.wait_until(held, until)) {
    }
  }
  return watch;
}

ClusterWatch::ClusterWatch(const CommandLine& line, Fd news_fd)
    : line_(line), news_fd_(std::move(news_fd)), prompt_(not_polled_yet), query_line_(line) {}

ClusterWatch::~ClusterWatch() {
  {
    const MutexLock held(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::optional<std::string> ClusterWatch::next() {
  const MutexLock held(mutex_);
  if (news_.empty() && left_out_ == 0) {
    std::uint64_t count = 0;
    (void)!::read(news_fd_.get(), &count, sizeof count);
    return std::nullopt;
  }
  if (news_.empty()) return fmt::format("{} more changes omitted", std::exchange(left_out_, 0));
  std::string line = std::move(news_.front());
  news_.pop_front();
  return line;
}

std::string ClusterWatch::prompt() {
  const MutexLock held(mutex_);
  return prompt_;
}

void ClusterWatch::print_lines(std::vector<std::string> lines) {
  if (lines.empty()) return;
  const MutexLock held(mutex_);
  for (auto& line : lines) {
    if (news_.size() < most_news)
      news_.push_back(std::move(line));
    else
      ++left_out_;
  }
  const std::uint64_t one = 1;
  (void)!::write(news_fd_.get(), &one, sizeof one);
}

void ClusterWatch::show(std::string prompt) {
  const MutexLock held(mutex_);
  if (prompt == prompt_) return;
  prompt_ = std::move(prompt);
  changed_.notify_all();
  const std::uint64_t one = 1;
  (void)!::write(news_fd_.get(), &one, sizeof one);
}

void ClusterWatch::run() {
  link_ = std::make_unique<ConsoleLink>([this] { return ending_.load(); });
  query_line_.console_link = link_.get();
  while (!ending_) {
    poll();
    const auto until = std::chrono::steady_clock::now() + interval;
    MutexLock held(mutex_);
    while (!ending_ && changed_.wait_until(held, until)) {
    }
  }
  link_.reset();
}

void ClusterWatch::poll() {
  const auto cluster = find_cluster(query_line_);
  auto client = cluster ? ToolClient::open(*cluster) : cluster.error();
  const auto request = [&](const std::string& verb, const std::string& kind) -> Result<Json> {
    if (!client) return client.error();
    const auto text = client->request(verb, kind, {}, timeout);
    if (!text) return text.error();
    return Json::parse(*text, nullptr, false);
  };
  // A cheap query detects changes. A head that does not support it gets all queries.
  const auto changes = request("changes", "");
  const std::string now = changes && changes->is_object() ? json_text(*changes) : std::string();
  if (!now.empty() && reached_ && !lost_ && now == changes_) return;
  const auto status = request("status", "");
  const auto nodes = status ? request("list", "nodes") : status;
  const auto jobs = nodes ? request("list", "jobs") : nodes;
  const auto submissions = jobs ? request("list", "submissions") : jobs;
  if (!submissions || !status->is_object()) {
    if (reached_ && !std::exchange(lost_, true)) print_lines({"the head does not reply"});
    show(no_cluster);
    changes_.clear();
    return;
  }
  SeenThings seen_nodes = things_of(*nodes, "node_id", "address");
  SeenThings seen_jobs = things_of(*submissions, "job_id", "name");
  seen_jobs.merge(things_of(*jobs, "job_id", "name"));
  if (std::exchange(lost_, false)) print_lines({"the head replies again"});
  if (std::exchange(reached_, true)) {
    auto lines = changes_between("node", nodes_, seen_nodes);
    for (auto& line : changes_between("job", jobs_, seen_jobs)) lines.push_back(std::move(line));
    print_lines(std::move(lines));
  }
  changes_ = now;
  nodes_ = std::move(seen_nodes);
  jobs_ = std::move(seen_jobs);
  show(prompt_of(*status));
}

}  // namespace mobula::internal::cli::repl
