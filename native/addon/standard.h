// As standard.h of the folder above, for the addon: with that of node-addon-api.
#include <napi.h>

#include "../standard.h"
