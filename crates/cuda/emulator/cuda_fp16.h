// Found in place of the toolkit's.
#include "device.h"
