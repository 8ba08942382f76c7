import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.util.Set;
import java.util.StringJoiner;

/** What a database says of itself through JDBC, for each URL that is given. */
public class Meta {
    // Counted by the lake, or by Postgres's own statistics.
    private static final Set<String> COUNTS = Set.of("CARDINALITY", "PAGES");

    private interface Method {
        ResultSet call() throws SQLException;
    }

    private static void show(String name, Method method) throws SQLException {
        System.out.println("# " + name);
        try (ResultSet rows = method.call()) {
            ResultSetMetaData columns = rows.getMetaData();
            while (rows.next()) {
                StringJoiner line = new StringJoiner(", ");
                for (int at = 1; at <= columns.getColumnCount(); at++) {
                    if (!COUNTS.contains(columns.getColumnName(at))) {
                        line.add(columns.getColumnName(at) + "=" + rows.getString(at));
                    }
                }
                System.out.println(line);
            }
        }
    }

    private static void describe(DatabaseMetaData data) throws SQLException {
        show("getTables", () -> data.getTables(null, "gold", "%", new String[] {"TABLE", "VIEW"}));
        show("getTables by pattern", () -> data.getTables("shop", "s%", "k_nd%", null));
        show("getTables of the catalog", () -> data.getTables(null, "pg_catalog", "pg_cl%", new String[] {"SYSTEM TABLE"}));
        show("getColumns", () -> data.getColumns(null, "gold", "orders", "%"));
        show("getColumns of all types", () -> data.getColumns(null, "silver", "%", null));
        show("getPrimaryKeys", () -> data.getPrimaryKeys(null, "gold", "orders"));
        show("getIndexInfo", () -> data.getIndexInfo(null, "gold", "orders", false, false));
        show("getImportedKeys", () -> data.getImportedKeys(null, "gold", "orders"));
        show("getExportedKeys", () -> data.getExportedKeys(null, "gold", "orders"));
        show("getCrossReference", () -> data.getCrossReference(null, "gold", "orders", null, "gold", "totals"));
        show("getBestRowIdentifier", () ->
            data.getBestRowIdentifier(null, "gold", "orders", DatabaseMetaData.bestRowSession, true));
        show("getSchemas", () -> data.getSchemas());
        show("getSchemas by pattern", () -> data.getSchemas(null, "go%"));
        show("getTableTypes", () -> data.getTableTypes());
        show("getProcedures", () -> data.getProcedures(null, null, "%"));
        show("getFunctionColumns", () -> data.getFunctionColumns(null, "pg_catalog", "abs", null));
        System.out.println("# others");
        System.out.println(data.getSQLKeywords() + data.getMaxColumnNameLength() + data.getMaxColumnsInIndex());
        System.out.println(data.getTypeInfo().next());
        System.out.println(data.getConnection().getSchema() + data.getConnection().getCatalog());
    }

    public static void main(String[] urls) throws SQLException {
        for (int at = 0; at < urls.length; at++) {
            if (at > 0) {
                System.out.println("=====");
            }
            try (Connection connection = DriverManager.getConnection(urls[at])) {
                describe(connection.getMetaData());
            }
        }
    }
}
