import { fileURLToPath } from 'node:url'

/** Version of the command and of everything that it runs. */
export const VERSION = '0.1.0'

/** Name of the npm package that contains the command. */
export const PACKAGE = '@passover/cli'

/** Path of the file that starts the command. The relative path is valid in the bundle too, which lies equally deep in the package. */
export const COMMAND_FILE = fileURLToPath(new URL('../bin/passover.js', import.meta.url))
