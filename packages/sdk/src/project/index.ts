/**
 * Which files of a project this user may believe. A project file can name a server that receives contexts and proposes changes, so it is
 * believed only if it cannot come from another user of the machine or from the author of a cloned repository.
 *
 * Invariants:
 * I1 Nothing outside of the repository of the working directory is read (search.ts).
 * I2 A file is believed only where the user or root owns it and its directories, and others cannot write them (ownership.ts).
 * I3 A server file is believed only with this user's seal for this very folder; everything else in `.passover` only where the folder
 *    carries such a seal and git does not track it (seal.ts, project-directory.ts).
 * I4 A file that is not believed is named, with the reason and the remedy; it never changes what is done.
 */

export { ownershipFault, type TrustIssue } from './ownership.js'
export { folderFault, ownFolder } from './project-directory.js'
export { NoSealingKey } from './seal.js'
export {
  type FoundProject,
  filesUpward,
  type IgnoredFile,
  ignoredText,
  PROJECT_FOLDER,
  type ProjectSearch,
  searchProject,
} from './search.js'
export { readSealed, type ServerFile, serverFilePath, writeServerFile } from './server-file.js'
export { readUserConfig, userConfigPath } from './user-config.js'
