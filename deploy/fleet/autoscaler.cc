#include "deploy/fleet/autoscaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/text/json_writer.h"
#include "deploy/fleet/fleet_document.h"
#include "deploy/fleet/planner_state.h"
#include "scheduler/planner/planner.h"

namespace mobula::internal::fleet {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration query_timeout = 30s;
constexpr Duration poll_wait = 8s;   // longest wait of the head for a change
constexpr Duration poll_pause = 1s;  // between two polls
constexpr Duration snapshot_interval_min = 1s;
constexpr Duration snapshot_interval_max = 10s;
constexpr std::int64_t snapshot_share = 20;  // 1/20 of the time at most for snapshots
constexpr Duration busy_snapshot_interval = 2s;
constexpr Duration idle_snapshot_interval = 10s;
constexpr Duration report_interval = 20s;  // the head forgets a report after 60 s
constexpr Duration report_pause = 1s;
constexpr Duration describe_backoff = 10s;
constexpr std::size_t max_events = 200;  // pending entries for the event log

}  // namespace

Autoscaler::Autoscaler(EventLoop& loop, AutoscalerOptions options, HeadLink::Find find)
    : loop_(loop),
      options_(std::move(options)),
      settings_(options_.types.provider.empty() ? nlohmann::json::object()
                                                : nlohmann::json::parse(options_.types.provider)),
      head_(
          loop, std::move(find), [this] { on_connected(); },
          [this](const std::string& why) { on_lost(why); }),
      provider_(ProviderOptions{.words = options_.provider}),
      snapshot_timer_(loop, [this] { take_snapshot(); }),
      report_timer_(loop, [this] { send_report(); }),
      core_timer_(loop, [this] { step(FleetTick{}); }),
      provider_timer_(loop, [this] { step_provider(); }),
      describe_timer_(loop, [this] { describe(); }),
      poll_timer_(loop, [this] { poll_changes(); }) {}

Autoscaler::~Autoscaler() = default;

void Autoscaler::log(const std::string& text) const {
  if (options_.log) options_.log(text);
}

void Autoscaler::start() { head_.open(); }

// ---- the head -----------------------------------------------------------------------------------

void Autoscaler::on_connected() {
  log("autoscaler: connected to the head address=" + head_.head()->address);
  seen_.clear();
  orders_done_ = 0;
  if (core_ == nullptr) {
    head_.query("status", "", "", query_timeout, [this](const Result<std::string>& text) {
      if (!text || core_ != nullptr) return;
      const Json status = Json::parse(*text, nullptr, false);
      cluster_ = status.is_object() ? status.value("cluster_name", std::string()) : "";
      const auto& key = head_.head()->key;
      const std::string identity = key ? key->head_curve_key : head_.head()->address;
      cluster_id_ = fmt::format("{:08x}", fnv1a(cluster_ + "\n" + identity) >> 32);
      describe();
    });
  }
  poll_changes();
  request_snapshot();
  report_soon();
}

void Autoscaler::on_lost(const std::string& why) {
  log("autoscaler: the head is lost reason=" + why);
}

// The head holds the reply back until its state changes. An older head answers at once.
void Autoscaler::poll_changes() {
  if (polling_ || !head_.is_connected()) return;
  polling_ = true;
  const auto wait_ms = std::to_string(poll_wait / 1ms);
  head_.query("changes", seen_, wait_ms, poll_wait + 10s, [this](const Result<std::string>& text) {
    polling_ = false;
    if (!text) return;
    const Json json = Json::parse(*text, nullptr, false);
    if (json.is_object()) {
      auto seen = fmt::format("{}:{}", json.value("epoch", std::uint64_t{0}),
                              json.value("number", std::uint64_t{0}));
      if (seen != std::exchange(seen_, seen)) request_snapshot();
      if (json.value("autoscaler_orders", false)) report_soon();
    }
    poll_timer_.arm(monotonic_now() + poll_pause);
  });
}

void Autoscaler::request_snapshot() {
  snapshot_wanted_ = true;
  if (!snapshot_pending_) snapshot_timer_.arm(next_snapshot_);
}

void Autoscaler::take_snapshot() {
  if (snapshot_pending_ || !head_.is_connected() || core_ == nullptr) return;
  snapshot_pending_ = true;
  snapshot_wanted_ = false;
  snapshot_at_ = monotonic_now();
  head_.query("planner_state", "", "", query_timeout, [this](const Result<std::string>& text) {
    if (text) return take_state(*text);
    snapshot_pending_ = false;
    next_snapshot_ = monotonic_now() + snapshot_interval_max;
    log("autoscaler: no planner state reason=" + text.error().text);
    request_snapshot();
  });
}

void Autoscaler::take_state(const std::string& text) {
  work_.run([this, text] {
    auto state =
        std::make_shared<Result<PlannerState>>(planner_state_of(Json::parse(text, nullptr, false)));
    (void)loop_.post([this, state] {
      snapshot_pending_ = false;
      const Time now = monotonic_now();
      // A large cluster is sampled less often.
      next_snapshot_ = now + std::clamp<Duration>(snapshot_share * (now - snapshot_at_),
                                                  snapshot_interval_min, snapshot_interval_max);
      if (*state) {
        const bool recovering = !(*state)->warnings.empty();
        step(SnapshotReceived{std::move((*state)->cluster), recovering,
                              std::move((*state)->dead_instances)});
      } else {
        log("autoscaler: cannot read the planner state reason=" + state->error().text);
      }
      const bool active = core_->is_busy() || core_->has_instances();
      const Duration pause = core_->is_busy() ? busy_snapshot_interval : idle_snapshot_interval;
      if (snapshot_wanted_) {
        snapshot_timer_.arm(next_snapshot_);
      } else if (active) {
        snapshot_timer_.arm(std::max(next_snapshot_, now + pause));
      }
    });
  });
}

void Autoscaler::report_soon() {
  const Time at = std::max(next_report_, monotonic_now());
  report_timer_.arm(at);
}

void Autoscaler::send_report() {
  if (reporting_ || !head_.is_connected()) return;
  const Time now = monotonic_now();
  FleetReport report;
  if (core_) report = core_->report(now);
  if (!core_) {
    report.waits_for = provider_fault_.empty() ? "the provider" : "provider: " + provider_fault_;
  }
  auto document = document_of(report, events_);
  document["orders_done"] = orders_done_;
  const std::size_t sent = events_.size();
  reporting_ = true;
  next_report_ = now + report_pause;
  const auto arm = [this] { report_timer_.arm(monotonic_now() + report_interval); };
  head_.query("fleet_report", "", json_text(document), query_timeout,
              [this, sent, arm, done = orders_done_](const Result<std::string>& text) {
                reporting_ = false;
                arm();
                if (!text) return log("autoscaler: report reason=" + text.error().text);
                events_.erase(
                    events_.begin(),
                    events_.begin() + static_cast<std::ptrdiff_t>(std::min(sent, events_.size())));
                take_orders(*text);
                if (!events_.empty() || orders_done_ > done) report_soon();
              });
}

void Autoscaler::take_orders(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || core_ == nullptr) return;
  for (const auto& each : json.value("orders", Json::array())) {
    const auto order = each.value("order", std::string());
    const auto type = each.value("type", std::string());
    if (order == "pause") step(PauseType{type, "paused by an operator"});
    if (order == "resume") step(ResumeType{type});
    orders_done_ = std::max(orders_done_, each.value("number", std::uint64_t{0}));
    request_snapshot();
  }
}

// ---- the core -----------------------------------------------------------------------------------

void Autoscaler::begin_core() {
  FleetOptions options;
  options.cluster = cluster_id_;
  // Names of an earlier run are never used again, whatever its provider still does.
  options.first_number = static_cast<std::uint64_t>(wall_clock_ms() / 100);
  options.types = options_.types.types;
  options.limits = options_.types.limits;
  options.standing = options_.types.standing;
  options.launch_timeout = options_.types.launch_timeout;
  options.drain_timeout = options_.types.drain_timeout;
  options.absent_timeout = options_.types.absent_timeout;
  if (max_pending_) options.max_pending = std::max<std::int64_t>(1, *max_pending_);
  core_ = std::make_unique<FleetCore>(std::move(options));
  step(FleetTick{});
  request_snapshot();
}

void Autoscaler::step(FleetEvent event) {
  if (core_ == nullptr) return;
  std::vector<FleetCommand> commands;
  const Time now = monotonic_now();
  core_->step(now, std::move(event), commands);
  for (auto& each : commands) std::visit([this](auto& command) { execute(command); }, each);
  if (const auto next = core_->next_deadline()) {
    core_timer_.arm(*next);
  } else {
    core_timer_.disarm();
  }
  const auto report = core_->report(now);
  std::string seen;
  for (const auto& each : report.types) {
    for (const auto count : each.instances) seen += fmt::format("{} ", count);
    seen += each.closed + '\n';
  }
  for (const auto& each : report.waits) {
    seen += each.class_id.hex() + each.group.hex() + each.starting + each.why + each.lacks + '\n';
  }
  seen += report.waits_for;
  if (seen != std::exchange(reported_, seen) || !events_.empty()) report_soon();
}

void Autoscaler::execute(const ListInstances&) {
  call(request_of(ProviderCall::list), [this](const ProviderReply& reply) {
    if (reply.error) {
      log("autoscaler: list failed reason=" + reply.error->text);
      return step(ListFailed{*reply.error});
    }
    Listed listed;
    listed.whole = reply.complete;
    for (const auto& each : reply.instances) {
      InstanceRow row{each.name, each.ref, each.type, each.state, each.reason};
      if (each.ends_at) {
        const auto left_ms = *each.ends_at * 1000 - wall_clock_ms();
        row.ends_in = std::max<std::int64_t>(0, left_ms) * 1ms;
      }
      listed.rows.push_back(std::move(row));
    }
    step(std::move(listed));
  });
}

void Autoscaler::execute(const EndInstances& command) {
  auto request = request_of(ProviderCall::end);
  for (const auto& each : command.instances) {
    InstanceSpec spec;
    spec.name = each.name;
    spec.ref = each.ref;
    request.instances.push_back(std::move(spec));
    log("autoscaler: end instance=" + each.name);
  }
  call(std::move(request), [this, command](const ProviderReply& reply) {
    EndAnswered answer;
    for (const auto& each : command.instances)
      answer.answers.push_back({each.name, each.ref, reply.error});
    for (const auto& each : reply.instances) {
      const auto at = std::ranges::find(answer.answers, each.name, &InstanceAnswer::name);
      if (at != answer.answers.end() && !reply.error) at->failure = each.error;
    }
    step(std::move(answer));
  });
}

void Autoscaler::execute(const DrainNode& command) {
  const auto ms = std::to_string(std::max<std::int64_t>(1, command.timeout / 1ms));
  log("autoscaler: drain node=" + command.node.brief());
  head_.query("drain", ms, command.node.hex(), query_timeout,
              [this](const Result<std::string>& text) {
                if (!text) log("autoscaler: drain failed reason=" + text.error().text);
                request_snapshot();
              });
}

void Autoscaler::execute(const UndrainNode& command) {
  log("autoscaler: undrain node=" + command.node.brief());
  head_.query("undrain", "", command.node.hex(), query_timeout,
              [this](const Result<std::string>& text) {
                if (!text) log("autoscaler: undrain failed reason=" + text.error().text);
                request_snapshot();
              });
}

void Autoscaler::execute(const CountObjects& command) {
  head_.query("list", "memory", "", query_timeout,
              [this, command](const Result<std::string>& text) {
                const Json memory = text ? Json::parse(*text, nullptr, false) : Json();
                if (!memory.is_object()) return;
                std::map<std::string, std::int64_t> left;
                for (const auto& store : memory.value("nodes", Json::array())) {
                  left[store.value("node_id", std::string())] =
                      std::max<std::int64_t>(0, store.value("leaving_objects", std::int64_t{0}));
                }
                for (const auto& node : command.nodes) {
                  // A node that did not answer may hold some.
                  if (const auto at = left.find(node.hex()); at != left.end()) {
                    step(Drained{node, at->second});
                  }
                }
              });
}

void Autoscaler::execute(MakePlan& command) {
  auto order = std::make_shared<MakePlan>(std::move(command));
  work_.run([this, order] {
    auto plan = std::make_shared<planner::Plan>(
        planner::plan(order->state, order->types, options_.types.limits));
    (void)loop_.post([this, order, plan] { step(Planned{order->number, std::move(*plan)}); });
  });
}

void Autoscaler::execute(const RecordEvent& command) {
  log("autoscaler: " + command.kind + " " + command.text);
  if (events_.size() < max_events) events_.push_back(command);
}

// ---- the provider -------------------------------------------------------------------------------

ProviderRequest Autoscaler::request_of(ProviderCall call) const {
  ProviderRequest request;
  request.call = call;
  request.cluster = cluster_;
  request.cluster_id = cluster_id_;
  if (head_.head()) request.head = head_.head()->address;
  request.settings = settings_;
  return request;
}

// A provider that fails from the start is not used; the failure is reported.
void Autoscaler::describe() {
  call(request_of(ProviderCall::describe), [this](const ProviderReply& reply) {
    if (described_) return;
    if (reply.error) {
      provider_fault_ = fmt::format("{} ({})", to_string(reply.error->kind), reply.error->text);
      log("autoscaler: describe failed reason=" + provider_fault_);
      describe_timer_.arm(monotonic_now() + describe_backoff);
      return report_soon();
    }
    described_ = true;
    provider_fault_.clear();
    for (const auto& each : reply.warnings) log("autoscaler: provider warning=" + each);
    max_pending_ = reply.max_pending;
    begin_core();
  });
}

void Autoscaler::call(ProviderRequest request, std::function<void(const ProviderReply&)> done) {
  calls_.emplace(provider_.start(std::move(request)), std::move(done));
  provider_timer_.arm(monotonic_now());
}

void Autoscaler::step_provider() {
  if (std::exchange(stepping_provider_, true)) return;
  watches_.clear();  // the step closes descriptors
  const auto replies = provider_.step(monotonic_now());
  stepping_provider_ = false;
  provider_timer_.disarm();
  for (const auto& reply : replies) {
    const auto at = calls_.find(reply.number);
    if (at == calls_.end()) continue;
    const auto done = std::move(at->second);
    calls_.erase(at);
    done(reply);
  }
  watch_provider();
}

void Autoscaler::watch_provider() {
  std::vector<pollfd> items;
  provider_.watch(items);
  for (const auto& item : items) {
    const bool writes = (item.events & POLLOUT) != 0;
    auto watch = loop_.watch(item.fd, writes ? Interest::write : Interest::read,
                             [this](Readiness) { provider_timer_.arm(monotonic_now()); });
    if (watch) watches_[item.fd] = std::move(watch).value();
  }
  if (const auto next = provider_.next_deadline(); next && !provider_timer_.armed()) {
    provider_timer_.arm(*next);
  }
}

}  // namespace mobula::internal::fleet
