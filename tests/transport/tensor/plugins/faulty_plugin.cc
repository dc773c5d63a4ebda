// Plugins with one fault each, selected by the FAULT macro.
#include <set>

#include "transport/plugins/carrier_parts.h"

namespace {

using namespace mobula::plugins;  // NOLINT: a separate library

// The host does not destroy a carrier after an exception. This list keeps it reachable for the leak
// checker.
std::set<const void*>& carriers() {
  static auto* const all = new std::set<const void*>();
  return *all;
}

}  // namespace

struct mobula_carrier {
 public:
  mobula_carrier(const mobula_carrier_host& /*host*/, const std::string& /*listen*/) {
#if defined(FAULT_NO_LIBRARY)
    throw std::runtime_error("libfaulty.so.1 finds no device");
#endif
    carriers().insert(this);
    events_.ring();
  }
  ~mobula_carrier() { carriers().erase(this); }
  mobula_carrier(const mobula_carrier&) = delete;
  mobula_carrier& operator=(const mobula_carrier&) = delete;
  int descriptor() const { return events_.descriptor(); }
  std::string endpoint() const { return "here"; }
  std::uint64_t connect(const std::string& /*endpoint*/) { return 7; }
  bool send(std::uint64_t /*number*/, const mobula_carrier_bytes* /*parts*/,
            std::size_t /*count*/) {
#if defined(FAULT_THROWS_LATER)
    throw std::runtime_error("out of luck");
#else
    return true;
#endif
  }
  void drop(std::uint64_t /*number*/) {}
  void poll() { events_.take(); }

 private:
  Inbox events_;
};

namespace {

mobula_transport_plugin faulty() {
  mobula_transport_plugin table = table_of("faulty", MOBULA_TRANSPORT_LEAST_MESSAGE);
#if defined(FAULT_VERSION)
  table.version = MOBULA_TRANSPORT_PLUGIN_VERSION + 1;
#elif defined(FAULT_SIZE)
  table.size -= 8;
#elif defined(FAULT_NAME)
  table.name = "Not a name";
#elif defined(FAULT_MESSAGES)
  table.max_message_bytes = 1'000;
#elif defined(FAULT_FUNCTION)
  table.send = nullptr;
#endif
  return table;
}

const mobula_transport_plugin table = faulty();

}  // namespace

#if !defined(FAULT_SYMBOL)
const mobula_transport_plugin* mobula_open_transport_plugin(void) {
#if defined(FAULT_THROWS)
  throw std::runtime_error("no luck today");
#elif defined(FAULT_NO_TABLE)
  return nullptr;
#else
  return &table;
#endif
}
#endif
