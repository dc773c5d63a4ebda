// The life of a driver: attach to the agent, start the job, run the items, end the job.
#include "sim/agent_role.h"
#include "sim/process_role.h"

namespace mobula::internal::sim {

void Process::start_driver() { attach(); }

void Process::attach() {
  if (!alive() || agent_ || world().over()) return;
  Agent* agent = node_.agent;
  if (agent == nullptr || !agent->alive()) {
    world().kernel().after(Duration(150ms), [this] { attach(); });
    return;
  }
  agent_ = agent->connect(*this);
  agent->take(worker::ProcessConnected{agent_->link, "user", pid()});
  AttachDriver message;
  message.process = id();
  message.job = job();
  message.curve_key = "key";
  message.pid = pid();
  agent_->agent->process_said(agent_, message);
}

void Process::attached(const DriverAttached& message) {
  greeted_ = true;
  StartJob start;
  start.job = job();
  start.driver = id();
  start.name = name();
  start.name_space = "shared";
  start.program.id = program_;
  ProgramFile file;
  file.name = "app";
  file.hash = Hash128{0x50524f47, static_cast<std::uint64_t>(driver_) + 1};
  file.size_bytes = 1000;
  start.program.files.push_back(file);
  start.program.source = message.node;
  start.terms = world().plan().terms.at(static_cast<std::size_t>(driver_));
  node_.files.insert(file.hash);
  step_client(client::Attached{message.node, message.agent, start});
}

void Process::head_answered(const HeadToProcess& answer) {
  if (const auto* started = std::get_if<StartJobReply>(&answer); started && started->job == job()) {
    admitted_ = true;
    if (!std::exchange(items_started_, true)) start_items();
    return;
  }
  if (const auto* refused = std::get_if<RequestRejected>(&answer)) {
    world().log(*this, [&] { return "job refused: " + refused->why; });
    if (items_started_) return;
    // Models a user who starts the program again.
    world().kernel().after(Duration(500ms), [this] {
      if (alive() && !items_started_ && agent_) {
        receive([this] {
          DriverAttached again;
          again.node = node_.id;
          attached(again);
        });
      }
    });
    return;
  }
  const auto* found = std::get_if<FindActorReply>(&answer);
  if (found == nullptr) return;
  if (found->request != 0 && found->request == name_release_)
    step_executor(executor::NameReleased{});
  const auto by_request = answers_.find(found->request);
  const auto by_actor = found_instead_.find(found->wanted);
  if (by_request != answers_.end()) {
    by_request->second = *found;
  } else if (by_actor != found_instead_.end() && !by_actor->second) {
    by_actor->second = *found;
  } else if (found->found && found->actor != found->wanted) {
    client_events_.emplace_back(client::ReleaseRef{handle_id(found->actor)});
  }
}

void Process::start_items() {
  const auto& items = world().plan().items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].driver != driver_ || world().masked_item(static_cast<int>(i))) continue;
    const auto& plan = world().plan().plans.at(static_cast<std::size_t>(items[i].plan));
    const TaskId root = TaskId::derived(job(), "item", i);
    const std::uint64_t key = i + 1;
    threads_.emplace(key, std::make_unique<Thread>(*this, key, plan, root));
    resume_later(key, std::max(Duration(1us), items[i].at - world().now()));
  }
  idle_since_ = world().now();
  end_when_done();
}

// Ends the job when all items are done and the core has released all its state.
void Process::end_when_done() {
  if (!items_started_ || !threads_.empty() || ending_ || !alive()) return;
  if (!client_.empty()) {
    if (world().now() > world().plan().heal + Duration(60s) &&
        world().now() - idle_since_ > Duration(60s)) {
      world().violation("leftovers", name() + " has no ref left, but " + core_left());
      return;
    }
    world().kernel().after(Duration(20ms), [this] { receive([this] { end_when_done(); }); });
    return;
  }
  ending_ = true;
  world().log(*this, [] { return std::string("ends its job"); });
  if (auto use = client_.unreported_use(); !use.rows.empty())
    step_client(client::QueryHead{std::move(use)});
  step_client(client::QueryHead{EndJob{job()}});
  world().kernel().after(Duration(50ms), [this] {
    ended_ = true;
    EndCause cause;
    cause.pid = pid();
    die(cause);
  });
}

}  // namespace mobula::internal::sim
