// Calls the service until the line "stop": ledger_client NAME. It finds the actor again after an
// error, and repeats no call. Prints one line per call: "ok ENTRY", or "failed ENTRY".
#include <mobula/mobula.h>
#include <mobula/service.h>

#include <atomic>
#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ledger.h"

MOBULA_DECLARED_ONLY(Ledger)

namespace {

using LedgerHandle = mobula::ActorHandle<Ledger>;

// Empty while no actor has the name.
std::optional<LedgerHandle> find_ledger() {
  try {
    return mobula::get_actor<Ledger>("ledger", "services");
  } catch (const mobula::NotFoundError&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return std::nullopt;
  }
}

// True if the call returned. Any error but those of an actor that died ends the program.
bool has_returned(const mobula::ObjectRef<std::int64_t>& call) {
  try {
    (void)mobula::get(call, std::chrono::seconds(60));
    return true;
  } catch (const mobula::ActorDiedError&) {
  } catch (const mobula::ActorUnavailableError&) {
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto cluster = mobula::init(argc, argv);
  const std::string name = argv[1];
  std::atomic<bool> stopped{false};
  std::thread input([&stopped] {
    for (std::string line; std::getline(std::cin, line) && line != "stop";) {
    }
    stopped = true;
  });
  std::optional<LedgerHandle> ledger;
  for (int number = 0; !stopped;) {
    if (!ledger) ledger = find_ledger();
    if (!ledger) continue;
    std::vector<std::pair<std::string, mobula::ObjectRef<std::int64_t>>> calls;
    for (int i = 0; i < 8; ++i) {
      const std::string entry = name + "-" + std::to_string(number++);
      calls.emplace_back(entry, ledger->call<&Ledger::enter>(entry));
    }
    for (const auto& [entry, call] : calls) {
      const bool ok = has_returned(call);
      if (!ok) ledger.reset();
      std::cout << (ok ? "ok " : "failed ") << entry << std::endl;
    }
  }
  input.join();
} catch (const std::exception& error) {
  std::cerr << "ledger_client: " << error.what() << std::endl;
  std::_Exit(1);
}
