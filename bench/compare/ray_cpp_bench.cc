// Ray's C++ API, by the definitions of Ray's own microbenchmarks (python/ray/_private/ray_perf.py).
//
// run.py builds it twice from this file, as a program and as the library that Ray's workers load
// (--library), and passes the address of a running cluster (--address). Needs ray-cpp from PyPI.
#include <ray/api.h>

#include <stdexcept>
#include <thread>

#include "timer.h"

using compare::Clock;
using compare::measure;

std::string small_value() { return "ok"; }
RAY_REMOTE(small_value);

class Server {
 public:
  static Server* create() { return new Server(); }
  std::string value() { return "ok"; }
  int batch_of_tasks(int count) {
    std::vector<ray::ObjectRef<std::string>> refs;
    for (int i = 0; i < count; ++i) refs.push_back(ray::Task(small_value).Remote());
    return static_cast<int>(ray::Get(refs).size());
  }
};
RAY_REMOTE(Server::create, &Server::value, &Server::batch_of_tasks);

// Handles travel as bytes: Ray's C++ API registers a handle with its receiver only if the handle is
// an argument by itself.
int call_round_robin(std::vector<std::string> handles, int count) {
  std::vector<ray::ActorHandle<Server>> servers;
  for (const auto& bytes : handles) servers.push_back(ray::ActorHandle<Server>::FromBytes(bytes));
  std::vector<ray::ObjectRef<std::string>> refs;
  for (int i = 0; i < count; ++i) {
    auto& server = servers[static_cast<std::size_t>(i) % servers.size()];
    refs.push_back(server.Task(&Server::value).Remote());
  }
  return static_cast<int>(ray::Get(refs).size());
}
RAY_REMOTE(call_round_robin);

namespace {

ray::ActorHandle<Server> server() { return ray::Actor(Server::create).Remote(); }

std::vector<ray::ActorHandle<Server>> servers(int count) {
  std::vector<ray::ActorHandle<Server>> all;
  for (int i = 0; i < count; ++i) all.push_back(server());
  for (auto& one : all) ray::Get(one.Task(&Server::value).Remote());
  return all;
}

void tasks_at_once(int count) {
  std::vector<ray::ObjectRef<std::string>> refs;
  for (int i = 0; i < count; ++i) refs.push_back(ray::Task(small_value).Remote());
  ray::Get(refs);
}

void calls_at_once(ray::ActorHandle<Server>& one, int count) {
  std::vector<ray::ObjectRef<std::string>> refs;
  for (int i = 0; i < count; ++i) refs.push_back(one.Task(&Server::value).Remote());
  ray::Get(refs);
}

void wait_one_by_one(int count) {
  std::vector<ray::ObjectRef<std::string>> pending;
  for (int i = 0; i < count; ++i) {
    // Copied, not moved. A moved Ray reference decrements its count before it increments it again,
    // and a task that has completed by then loses its result.
    const auto ref = ray::Task(small_value).Remote();
    pending.push_back(ref);
  }
  while (!pending.empty()) {
    auto split = ray::Wait(pending, 1, 60'000);
    if (split.ready.empty()) throw std::runtime_error("no task was ready after 60 s");
    pending.assign(split.unready.begin(), split.unready.end());
  }
}

void groups_once() {
  std::vector<ray::PlacementGroup> groups;
  for (int i = 0; i < 100; ++i) {
    ray::PlacementGroupCreationOptions options;
    options.bundles = {{{"custom", 0.001}}};
    options.strategy = ray::PlacementStrategy::PACK;
    groups.push_back(ray::CreatePlacementGroup(options));
  }
  for (auto& group : groups) {
    if (!group.Wait(30)) throw std::runtime_error("a placement group was not created within 30 s");
  }
  for (auto& group : groups) ray::RemovePlacementGroup(group.GetID());
}

void rates(int argc, char** argv, const compare::Pace& pace) {
  const auto wanted = [&](const char* key) { return compare::wanted(argc, argv, key); };
  if (wanted("single_client_get_calls_Plasma_Store")) {
    const auto value = ray::Put(0);
    measure("single_client_get_calls_Plasma_Store", 1, pace, [&] { ray::Get(value); });
  }
  if (wanted("single_client_put_calls_Plasma_Store"))
    measure("single_client_put_calls_Plasma_Store", 1, pace, [] { ray::Put(0); });
  if (wanted("single_client_wait_1k_refs"))
    measure("single_client_wait_1k_refs", 1, pace, [] { wait_one_by_one(1000); });
  if (wanted("single_client_tasks_sync"))
    measure("single_client_tasks_sync", 1, pace, [] { ray::Get(ray::Task(small_value).Remote()); });
  if (wanted("single_client_tasks_async"))
    measure("single_client_tasks_async", 1000, pace, [] { tasks_at_once(1000); });
  if (wanted("multi_client_tasks_async")) {
    auto clients = servers(4);
    const int each = pace.batch(10'000);
    measure("multi_client_tasks_async", 4.0 * each, pace, [&] {
      std::vector<ray::ObjectRef<int>> refs;
      for (auto& one : clients) refs.push_back(one.Task(&Server::batch_of_tasks).Remote(each));
      ray::Get(refs);
    });
  }
  if (wanted("1_1_actor_calls_sync")) {
    auto one = server();
    measure("1_1_actor_calls_sync", 1, pace, [&] { ray::Get(one.Task(&Server::value).Remote()); });
  }
  if (wanted("1_1_actor_calls_async")) {
    auto one = server();
    measure("1_1_actor_calls_async", 1000, pace, [&] { calls_at_once(one, 1000); });
  }
  if (wanted("single_client_put_written_gigabytes")) {
    const std::vector<std::int64_t> ones(100 * 1024 * 1024, 1);
    measure(
        "single_client_put_written_gigabytes", 0.8, pace, [&] { ray::Put(ones); }, "GB/s");
  }
  if (wanted("n_n_actor_calls_async")) {
    const unsigned cores = std::thread::hardware_concurrency();
    auto all = servers(cores < 4 ? 1 : static_cast<int>(cores / 2));
    std::vector<std::string> handles;
    for (const auto& one : all)
      handles.push_back(ray::internal::GetRayRuntime()->SerializeActorHandle(one.ID()));
    const int each = pace.batch(5000);
    measure("n_n_actor_calls_async", 4.0 * each, pace, [&] {
      std::vector<ray::ObjectRef<int>> refs;
      for (int i = 0; i < 4; ++i) refs.push_back(ray::Task(call_round_robin).Remote(handles, each));
      ray::Get(refs);
    });
  }
}

void start_actors(int count) {
  const auto begin = Clock::now();
  std::vector<ray::ActorHandle<Server>> actors;
  std::vector<ray::ObjectRef<std::string>> refs;
  for (int i = 0; i < count; ++i) actors.push_back(server());
  for (auto& one : actors) refs.push_back(one.Task(&Server::value).Remote());
  ray::Get(refs);
  compare::emit("many_actors", {count / compare::seconds_since(begin)}, "1/s");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto pace =
      compare::has_flag(argc, argv, "--quick") ? compare::quick_pace() : compare::Pace();
  ray::RayConfig config;
  config.address = compare::value_of(argc, argv, "--address", "");
  config.code_search_path = {compare::value_of(argc, argv, "--library", "")};
  const auto begin = Clock::now();
  try {
    ray::Init(config);
    if (mode == "rates") rates(argc, argv, pace);
    if (mode == "groups") measure("placement_group_create/removal", 100, pace, groups_once);
    if (mode == "actors") start_actors(std::stoi(compare::value_of(argc, argv, "--actors", "200")));
    if (mode == "start") {
      ray::Get(ray::Task(small_value).Remote());
      compare::emit("start_to_first_result", {1e3 * compare::seconds_since(begin)}, "ms");
    }
    ray::Shutdown();
  } catch (const std::exception& why) {
    compare::emit_failure(mode, why.what());
    return 1;
  }
  return 0;
}
