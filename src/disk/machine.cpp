#include "disk/machine.h"

#include <cstdio>
#include <memory>
#include <string_view>
#include <sys/utsname.h>

namespace stator::disk {

const std::string& processor() {
  static const std::string text = [] {
    struct utsname system = {};
    ::uname(&system);
    std::string made = std::string(system.sysname) + " " + system.machine + "\n";
    std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/cpuinfo", "re"), std::fclose);
    char line[16384];
    // One block of lines for each processor; the first tells enough. Frequencies and the like change all the time.
    while (file && std::fgets(line, sizeof line, file.get()) != nullptr && line[0] != '\n') {
      for (std::string_view kind : {"vendor_id", "cpu family", "model", "stepping", "flags",
                                    "Features", "CPU implementer", "CPU part", "CPU variant"}) {
        if (std::string_view(line).starts_with(kind)) {
          made += line;
          break;
        }
      }
    }
    return made;
  }();
  return text;
}

}  // namespace stator::disk
