#include "deploy/inventory.h"

#include <fmt/format.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/quantity.h"
#include "base/text/json_writer.h"
#include "deploy/launch_position.h"
#include "deploy/yaml_value.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::deploy {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t max_file_bytes = 1 << 20;
constexpr std::size_t max_hosts = 10'000;
constexpr std::size_t max_text = 4096;

using Value = YamlValue;

std::string line_of(const Value& value) {
  auto text = value.text();
  const bool control = std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
  if (text.empty() || text.size() > max_text || control) value.wrong("is not a line of text");
  return text;
}

bool truth_of(const Value& value) {
  const auto text = line_of(value);
  if (text != "true" && text != "false") value.wrong("'" + text + "' is neither true nor false");
  return text == "true";
}

int number_of(const Value& value, int low, int high) {
  const auto text = line_of(value);
  const auto amount = Quantity::parse(text);
  if (!amount || !amount->is_whole() || *amount < Quantity::whole(low) ||
      *amount > Quantity::whole(high)) {
    value.wrong(fmt::format("'{}' is not a whole number from {} to {}", text, low, high));
  }
  return static_cast<int>(amount->units() / Quantity::units_per_one);
}

std::string amount_of(const Value& value) {
  const auto text = line_of(value);
  if (const auto read = Quantity::parse(text); !read) value.wrong(read.error().text);
  return text;
}

std::string resources_of(const Value& value) {
  auto json = nlohmann::ordered_json::object();
  for_each_member(value, [&](const std::string& name, const Value& each) {
    if (each.node.IsScalar()) {
      json[name] = amount_of(each);
      return;
    }
    read_members(each,
                 {{"total", [&](const Value& total) { json[name]["total"] = amount_of(total); }},
                  {"unit", [&](const Value& unit) { json[name]["unit"] = truth_of(unit); }}});
  });
  return json_text(json);
}

std::string labels_of(const Value& value) {
  std::string labels;
  for_each_member(value, [&](const std::string& name, const Value& each) {
    const auto text = line_of(each);
    if ((name + text).find_first_of(",=") != std::string::npos)
      each.wrong("has a comma or an equals sign");
    labels += fmt::format("{}{}={}", labels.empty() ? "" : ",", name, text);
  });
  return labels;
}

class Reader {
 public:
  explicit Reader(std::string directory) : directory_(std::move(directory)) {}

  Inventory read(const Value& root) {
    bool has_head = false;
    // Keys that others depend on are read first, independent of their position.
    const auto first = readers_of_all();
    MemberReaders all = first;
    for (auto& [unused, each] : all) each = [](const Value&) {};
    all["head"] = [&](const Value& value) { read_host(value, true), has_head = true; };
    all["workers"] = [](const Value&) {};
    MemberReaders early = first;
    early["head"] = early["workers"] = [](const Value&) {};
    read_members(root, early);
    read_members(root, all);
    if (!has_head) root.wrong("has no 'head'");
    all["head"] = [](const Value&) {};
    all["workers"] = [&](const Value& value) { read_workers(value); };
    read_members(root, all);
    return std::move(inventory_);
  }

 private:
  MemberReaders readers_of_all() {
    return {
        {"cluster_name",
         [this](const Value& value) {
           inventory_.cluster = line_of(value);
           const auto& name = inventory_.cluster;
           if (name.size() > 256 || name.find('/') != std::string::npos || name.starts_with(".")) {
             value.wrong("'" + name + "' cannot be the name of a directory");
           }
         }},
        {"auth", [this](const Value& value) { read_members(value, readers_of(access_)); }},
        {"install_dir", [this](const Value& value) { inventory_.install_dir = line_of(value); }},
        {"state_dir", [this](const Value& value) { inventory_.state_dir = line_of(value); }},
        {"connect_timeout_seconds",
         [this](const Value& value) {
           inventory_.connect_timeout = std::chrono::seconds(number_of(value, 1, 600));
         }},
        {"grace_seconds",
         [this](const Value& value) {
           inventory_.grace = std::chrono::seconds(number_of(value, 0, 86'400));
         }},
        {"defaults", [this](const Value& value) { read_members(value, readers_of(defaults_)); }}};
  }

  MemberReaders readers_of(Access& access) const {
    return {{"ssh_user", [&](const Value& value) { access.user = plain(value); }},
            {"ssh_port", [&](const Value& value) { access.port = number_of(value, 1, 65'535); }},
            {"ssh_private_key", [&](const Value& value) { access.private_key = path_of(value); }},
            {"ssh_known_hosts", [&](const Value& value) { access.known_hosts = path_of(value); }},
            {"accept_new_hosts",
             [&](const Value& value) { access.accept_new_hosts = truth_of(value); }}};
  }

  // Flags of `mobula start`.
  static MemberReaders readers_of(std::vector<std::string>& flags) {
    const auto flag = [&flags](const char* name, std::string (*read)(const Value&)) {
      return [&flags, name, read](const Value& value) {
        flags.push_back(fmt::format("{}={}", name, read(value)));
      };
    };
    const auto text = [](const Value& value) { return line_of(value); };
    const auto amount = [](const Value& value) { return amount_of(value); };
    return {{"num_cpus", flag("--num-cpus", amount)},
            {"num_gpus", flag("--num-gpus", amount)},
            {"gpu_memory", flag("--gpu-memory", text)},
            {"accelerator_type", flag("--accelerator-type", text)},
            {"memory", flag("--memory", text)},
            {"object_store_memory", flag("--object-store-memory", text)},
            {"trusted_fabric", flag("--trusted-fabric", text)},
            {"resources", flag("--resources", resources_of)},
            {"labels", flag("--labels", labels_of)},
            {"flags", [&flags](const Value& value) {
               if (!value.node.IsSequence()) value.wrong("is not a list of words");
               for (const auto& each : value.node)
                 flags.push_back(line_of(Value{each, value.path}));
             }}};
  }

  void read_host(const Value& value, bool head) {
    Host host;
    host.head = head;
    host.access = access_;
    std::vector<std::string> own;
    std::string names;
    MemberReaders readers = readers_of(own);
    readers.merge(readers_of(host.access));
    readers["host"] = [&](const Value& each) { names = plain(each); };
    std::string bind;
    std::string advertise;
    if (head) {
      readers["port"] = [&](const Value& each) {
        own.push_back(fmt::format("--port={}", number_of(each, 1, 65'535)));
      };
      readers["bind"] = [&](const Value& each) { bind = line_of(each); };
      readers["advertise"] = [&](const Value& each) { advertise = line_of(each); };
      readers["worker"] = [&](const Value& each) {
        if (!truth_of(each)) own.emplace_back("--no-worker");
      };
    }
    if (value.node.IsScalar()) {
      names = plain(value);
    } else {
      read_members(value, readers);
      if (names.empty()) value.wrong("has no 'host'");
    }
    // A flag of the host overrides the same flag of `defaults`.
    const auto name_of = [](const std::string& flag) { return flag.substr(0, flag.find('=')); };
    for (const auto& each : defaults_) {
      const bool given = std::ranges::any_of(
          own, [&](const auto& flag) { return name_of(flag) == name_of(each); });
      if (!given) host.flags.push_back(each);
    }
    host.flags.insert(host.flags.end(), own.begin(), own.end());
    const auto hosts = expand_hosts(names);
    if (!hosts) value.wrong(hosts.error().text);
    if (head && hosts->size() != 1) value.wrong("is one host, not " + names);
    for (const auto& each : *hosts) {
      host.name = each;
      if (!seen_.insert(each).second) value.wrong("host " + each + " is given twice");
      if (seen_.size() > max_hosts) value.wrong("more than 10,000 hosts");
      inventory_.hosts.push_back(host);
    }
    if (!head) return;
    auto& flags = inventory_.hosts.back().flags;
    flags.push_back("--bind=" + (bind.empty() ? "0.0.0.0" : bind));
    flags.push_back("--advertise=" +
                    (advertise.empty() ? inventory_.hosts.back().name : advertise));
  }

  void read_workers(const Value& value) {
    if (!value.node.IsSequence()) value.wrong("is not a list of hosts");
    std::size_t number = 0;
    for (const auto& each : value.node)
      read_host({each, fmt::format("{}[{}]", value.path, number++)}, false);
  }

  // A word that ssh does not parse as a flag.
  static std::string plain(const Value& value) {
    auto text = line_of(value);
    if (text.starts_with("-") || text.find_first_of(" \t'\"") != std::string::npos) {
      value.wrong("'" + text + "' is not a name");
    }
    return text;
  }

  std::string path_of(const Value& value) const {
    const auto text = line_of(value);
    const char* home = std::getenv("HOME");
    if (text.starts_with("~/") && home != nullptr) return home + text.substr(1);
    return fs::path(text).is_absolute() ? text : (fs::path(directory_) / text).string();
  }

  std::string directory_;
  Inventory inventory_;
  Access access_;
  std::vector<std::string> defaults_;
  std::set<std::string> seen_;
};

}  // namespace

Result<Inventory> parse_inventory(const std::string& text, const std::string& file,
                                  const std::string& directory) {
  const auto refuse = [&](int line, const std::string& why) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}:{}: {}", file, std::max(line, 1), why));
  };
  try {
    return Reader(directory).read({YAML::Load(text), {}});
  } catch (const YamlFault& why) {
    return refuse(why.line, why.text);
  } catch (const YAML::Exception& why) {
    return refuse(why.mark.line + 1, why.msg);
  }
}

Result<Inventory> read_inventory(const std::string& file) {
  const auto text = read_file(file);
  if (!text) return failure(ErrorCode::invalid_argument, "the cluster file: " + text.error().text);
  if (text->size() > max_file_bytes)
    return failure(ErrorCode::invalid_argument, file + ": is larger than 1 MiB");
  std::error_code code;
  const auto absolute = fs::absolute(file, code);
  auto inventory = parse_inventory(*text, file, absolute.parent_path().string());
  if (!inventory) return inventory;
  inventory->file = absolute.string();
  for (const auto& host : inventory->hosts) {
    const std::string& key = host.access.private_key;
    if (key.empty() || ::access(key.c_str(), R_OK) == 0) continue;
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}: ssh_private_key of {}: {}", file, host.name,
                               errno_failure("cannot read " + key, errno).text));
  }
  return inventory;
}

}  // namespace mobula::internal::deploy
