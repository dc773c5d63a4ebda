//   an actor is an object in a separate process: calls of one holder run in submission order
#include <mobula/mobula.h>
#include <chrono>
#include <cstdlib>
#include <iostream>

#include "where.h"

class Ledger {
 public:
  int append(int entry) {
    entries_.push_back(entry);
    return static_cast<int>(entries_.size());
  }
  std::vector<int> entries() const { return entries_; }
  bool restarted() const { return mobula::current().was_restarted; }
  void crash() { std::_Exit(3); }
  void leave() { mobula::exit_actor(); }

 private:
  std::vector<int> entries_;
};

using Handle = mobula::ActorHandle<Ledger>;

void append_in_a_task(Handle ledger, int entry) {
  mobula::get(ledger.call<&Ledger::append>(entry));
}

template <class T>
bool has_died(const mobula::ObjectRef<T>& ref) {
  const auto result = mobula::try_get(ref, std::chrono::seconds(20));
  return !result && dynamic_cast<const mobula::ActorDiedError*>(&result.error()) != nullptr;
}

bool say(const char* what, bool as_expected) {
  std::cout << what << ": " << (as_expected ? "yes" : "NO") << "\n";
  return as_expected;
}

bool calls_are_ordered() {
  auto ledger = mobula::actor<Ledger>.remote();
  std::vector<int> expected;
  for (int i = 0; i < 100; ++i) {
    static_cast<void>(ledger.call<&Ledger::append>(i));
    expected.push_back(i);
  }
  return mobula::get(ledger.call<&Ledger::entries>()) == expected;
}

bool handles_travel() {
  auto ledger = mobula::actor<Ledger>.remote();
  mobula::get(mobula::task<append_in_a_task>.remote(ledger, 7));
  return mobula::get(ledger.call<&Ledger::entries>()) == std::vector<int>{7};
}

bool names_are_found() {
  const mobula::ActorOptions named{.name = "ledger", .get_if_exists = true};
  auto first = mobula::actor<Ledger>.options(named).remote();
  mobula::get(first.call<&Ledger::append>(1));
  auto again = mobula::actor<Ledger>.options(named).remote();
  auto found = mobula::get_actor<Ledger>("ledger");
  return mobula::get(again.call<&Ledger::append>(2)) == 2 &&
         mobula::get(found.call<&Ledger::append>(3)) == 3;
}

bool detached_ones_outlive_their_handles() {
  {
    const mobula::ActorOptions options{.name = "kept", .lifetime = mobula::Lifetime::detached};
    auto made = mobula::actor<Ledger>.options(options).remote();
    mobula::get(made.call<&Ledger::append>(1));
  }
  auto found = mobula::get_actor<Ledger>("kept");
  const bool kept = mobula::get(found.call<&Ledger::append>(2)) == 2;
  mobula::kill(found);
  // kill() returns when the request is sent. Calls that arrive before it are still answered.
  for (int i = 0; i < 10'000; ++i) {
    if (has_died(found.call<&Ledger::append>(3))) return kept;
  }
  return false;
}

bool crashes_are_restarted() {
  auto ledger = mobula::actor<Ledger>.options({.max_restarts = 1, .max_task_retries = 1}).remote();
  mobula::get(ledger.call<&Ledger::append>(1));
  static_cast<void>(
      mobula::try_get(ledger.method<&Ledger::crash>().options({.max_task_retries = 0}).remote()));
  return mobula::get(ledger.call<&Ledger::restarted>()) &&
         mobula::get(ledger.call<&Ledger::append>(1)) == 1;
}

bool an_actor_may_leave() {
  auto ledger = mobula::actor<Ledger>.options({.max_restarts = 5}).remote();
  static_cast<void>(mobula::try_get(ledger.call<&Ledger::leave>()));
  return has_died(ledger.call<&Ledger::append>(1));
}

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv, own_cluster_with({.num_cpus = 2}));
  bool right = say("100 calls ran in order", calls_are_ordered());
  right = say("a task called through a handle it was given", handles_travel()) && right;
  right = say("a named actor was found, and not made twice", names_are_found()) && right;
  right =
      say("a detached actor outlived its handle", detached_ones_outlive_their_handles()) && right;
  right = say("a crashed actor was restarted, with fresh state", crashes_are_restarted()) && right;
  right = say("an actor that left was not restarted", an_actor_may_leave()) && right;
  return right ? 0 : 1;
}
